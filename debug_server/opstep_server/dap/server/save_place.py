"""The places where a client may have files written."""

from __future__ import annotations

import os
from dataclasses import dataclass

from opstep_server import npy
from opstep_server.dap.protocol.request_arguments import RequestError


@dataclass(frozen=True)
class SavePlace:
    # Clients come over TCP: they get data, or files below `folder`.
    shared: bool = False
    # Chosen by the server's owner; empty: none.
    folder: str = ""

    def path(self, wanted: str, overwrite: bool) -> str:
        """The file to write; empty: the client gets the data instead."""
        if not wanted or (self.shared and not self.folder):
            return ""
        if self.shared:
            wanted = os.path.join(self.folder, wanted)
        path = npy.checked(wanted)
        if not os.path.isabs(path):
            raise RequestError(f"'{path}' must be an absolute path")
        if self.shared and not _is_below(path, self.folder):
            raise RequestError(f"this server writes files below {self.folder} only")
        if os.path.lexists(path) and not overwrite:
            raise RequestError(f"'{path}' is there already: choose another name, or overwrite it")
        return path


def _is_below(path: str, folder: str) -> bool:
    """Whether the path is below the folder once links are resolved."""
    real, top = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath([real, top]) == top and not os.path.islink(path)
