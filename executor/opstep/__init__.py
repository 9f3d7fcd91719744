"""opstep: describe a network in Python, compile it, run it, and stop between any two of its ops.

import opstep
from opstep import layers

x = layers.data("x", shape=[None, 64])
y = layers.fc(x, size=10, act="softmax")

exe = opstep.Executor()
exe.run(opstep.default_startup_program())
(value,) = exe.run(feed={"x": images}, fetch_list=[y])
"""

import os as _os
import threading as _threading
from typing import TYPE_CHECKING as _TYPE_CHECKING

from opstep import _core
from opstep._core import Error

_core.hide_frames_below(_os.path.dirname(_os.path.abspath(__file__)) + _os.sep)
_core.set_main_thread(_threading.main_thread().ident)

from opstep import (  # noqa: E402
    clipping,
    datasets,
    debug,
    imperative,
    initializer,
    layers,
    lr,
    metrics,
    ops,
    optimizer,
    pictures,
    ragged,
    readers,
    records,
    threads,
)
from opstep.context import (  # noqa: E402
    default_main_program,
    default_startup_program,
    name_scope,
    program_guard,
)
from opstep.convert import Spec, cond as cond, to_graph, while_, while_loop  # noqa: E402
from opstep.debug import connection as _connection  # noqa: E402
from opstep.executor import (  # noqa: E402
    CompiledProgram,
    Executor,
    Scope,
    compile,
    global_scope,
    scope_guard,
)
from opstep.model import (  # noqa: E402
    Model,
    load_checkpoint,
    load_model,
    load_params,
    save_checkpoint,
    save_model,
    save_params,
)
from opstep.program import Block, Operator, Program  # noqa: E402
from opstep.program_join import chain, merge  # noqa: E402
from opstep.pylayer import PyLayer  # noqa: E402
from opstep.ragged import Ragged  # noqa: E402
from opstep.show import notebook_cells as _notebook_cells  # noqa: E402
from opstep.threads import get_num_threads, set_num_threads  # noqa: E402
from opstep.train import loop_memory as _loop_memory  # noqa: E402
from opstep.train.backward import append_backward  # noqa: E402
from opstep.train.checkpoints import checkpoint, resume  # noqa: E402
from opstep.train.gradients import gradients  # noqa: E402
from opstep.train.loop_memory import get_loop_memory, set_loop_memory  # noqa: E402
from opstep.train.machine import (  # noqa: E402
    GradientMachine,
    OutputModel,
    compose,
    gradient_machine,
    model_of,
)
from opstep.train.updater import Updater, updater  # noqa: E402
from opstep.variable import Parameter, Variable  # noqa: E402
from opstep.version import __version__ as __version__  # noqa: E402

__all__ = [
    "Block",
    "CompiledProgram",
    "Error",
    "Executor",
    "GradientMachine",
    "Model",
    "Operator",
    "OutputModel",
    "Parameter",
    "Program",
    "PyLayer",
    "Ragged",
    "Scope",
    "Spec",
    "Updater",
    "Variable",
    "append_backward",
    "chain",
    "checkpoint",
    "clipping",
    "compile",
    "compose",
    "datasets",
    "debug",
    "default_main_program",
    "default_startup_program",
    "get_loop_memory",
    "get_num_threads",
    "global_scope",
    "gradient_machine",
    "gradients",
    "imperative",
    "initializer",
    "layers",
    "load_checkpoint",
    "load_model",
    "load_params",
    "lr",
    "merge",
    "metrics",
    "model_of",
    "name_scope",
    "ops",
    "optimizer",
    "pictures",
    "program_guard",
    "ragged",
    "readers",
    "records",
    "resume",
    "save_checkpoint",
    "save_model",
    "save_params",
    "scope_guard",
    "set_loop_memory",
    "set_num_threads",
    "to_graph",
    "updater",
    "while_",
    "while_loop",
]

_notebook_cells._start()
threads._start()
_loop_memory._start()
_connection._start()

if not _TYPE_CHECKING:  # Type checkers would take every name for an attribute.

    def __getattr__(name: str) -> object:
        from opstep import foreign_names

        hint = foreign_names.hint(name, foreign_names.FUNCTIONS | foreign_names.PACKAGE)
        for package in (layers, ops):
            if not hint and name in dir(package) and callable(getattr(package, name)):
                hint = f"; write {package.__name__.removeprefix('opstep.')}.{name}"
        raise AttributeError(f"module 'opstep' has no attribute '{name}'{hint}")
