"""In IPython and its notebooks, a line is named by its cell: `In[3]:2`."""

from __future__ import annotations

import os
import sys

from opstep import _core

# The code that runs a cell: without this its frames would appear below every line.
_MACHINERY = ("IPython", "ipykernel", "traitlets", "tornado", "asyncio")


def _start() -> None:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None:
        return
    for name in _MACHINERY:
        if name in sys.modules:
            folder = os.path.dirname(sys.modules[name].__file__ or "")
            _core.hide_frames_below(folder + os.sep)
            _core.hide_frames_below(f"{folder}_launcher.py")  # ipykernel's is beside its folder
    name_of = getattr(shell.compile, "format_code_name", None)
    if name_of is not None:
        _core.set_file_namer(lambda file: _cell(name_of(file)))


def _cell(label_and_name: tuple[str, str] | None) -> str | None:
    return label_and_name[1] if label_and_name else None
