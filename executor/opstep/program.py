"""`Program`, `Block` and `Operator`: accessors to a program that lives in C++."""

from __future__ import annotations

import itertools
import os
import re
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

from opstep import _core, context, origins, owners
from opstep._core import Error
from opstep.variable import Parameter, Variable

if TYPE_CHECKING:
    import numpy as np

    from opstep.executor import Executor, Scope
    from opstep.initializer import Initializer

# The value of a slot: one variable or several, as objects or by name.
Slot = Variable | str | Sequence[Variable | str]

_numbers = itertools.count()
_serials = itertools.count()
# protobuf does not read larger messages.
_FILE_LIMIT = 2**31 - 1


def file_path(path: str | os.PathLike[str]) -> str:
    """A path for the C++ core, which takes UTF-8."""
    try:
        text = os.fspath(path)
        text.encode()
    except (TypeError, AttributeError):
        raise Error(f"a {type(path).__name__} is not a path: give a string or a Path") from None
    except UnicodeEncodeError:
        raise Error(f"the path {text!r} is not UTF-8: give the file another name") from None
    return text


class Frame(NamedTuple):
    """A line of the user's Python that led to an op."""

    file: str
    line: int
    function: str


class Operator:
    """One op of a program."""

    __slots__ = ("_id", "program")

    def __init__(self, program: Program, op_id: int) -> None:
        self.program = program
        self._id = op_id

    def _field(self, name: str) -> Any:
        return self.program._core.op(self._id)[name]

    @property
    def id(self) -> int:
        """Unique in the program, from 1, never reused."""
        return self._id

    @property
    def type(self) -> str:
        return self._field("type")

    @property
    def name(self) -> str:
        """Its name for people: `fc_0.matmul`."""
        return self._field("name")

    @property
    def block(self) -> Block:
        return self.program.blocks[self._field("block")]

    @property
    def inputs(self) -> dict[str, list[str]]:
        """Slot → names of variables."""
        return self._field("inputs")

    @property
    def outputs(self) -> dict[str, list[str]]:
        """Slot → names of variables."""
        return self._field("outputs")

    @property
    def attrs(self) -> dict[str, Any]:
        return self._field("attrs")

    @property
    def stack(self) -> list[Frame]:
        """The user's lines that made it, innermost first."""
        return [Frame(*frame) for frame in self._field("stack")]

    @property
    def forward_op(self) -> Operator | None:
        """The op whose gradient this one computes."""
        forward = self._field("forward_op")
        return Operator(self.program, forward) if forward else None

    @property
    def forward_name(self) -> str:
        """The name of the op whose gradient it computes, also one of another program; or ''."""
        forward = self.forward_op
        return self._field("forward_name") if forward is None else forward.name

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Operator):
            return NotImplemented
        return self.program is other.program and self._id == other._id

    def __hash__(self) -> int:
        return hash((id(self.program), self._id))

    def __repr__(self) -> str:
        return f"<op #{self._id} {self.name} ({self.type})>"


class Block:
    """A list of ops and the variables that they make. Block 0 is the program itself."""

    def __init__(self, program: Program, index: int) -> None:
        self.program = program
        self.index = index
        self._program_id: int = program._core.id
        self._known: dict[str, Variable] = {}

    def __index__(self) -> int:
        return self.index

    @property
    def parent(self) -> Block | None:
        parent = self.program._core.block_parent(self.index)
        return None if parent < 0 else self.program.blocks[parent]

    @property
    def ops(self) -> list[Operator]:
        """In the order in which they run."""
        return [Operator(self.program, i) for i in self.program._core.op_ids(self.index)]

    @property
    def vars(self) -> dict[str, Variable]:
        """The block's own variables, in the order in which they were made."""
        return {name: self._own(name) for name in self.program._core.var_names(self.index)}

    def has_var(self, name: str) -> bool:
        """Is there a variable of that name here or in a block around this one?"""
        return self.program._core.block_of_var(self.index, name) >= 0

    def var(self, name: str) -> Variable:
        """The variable of that name, here or in a block around this one."""
        known = self._known.get(name)
        if known is not None:
            return known
        owner = self.program._core.block_of_var(self.index, name)
        if owner < 0:
            near = _core.nearest(name, self._visible())
            hint = f"; did you mean '{near}'?" if near else ""
            raise Error(f"program '{self.program.name}' has no variable '{name}'{hint}")
        return self.program._block(owner)._own(name)

    def _visible(self) -> list[str]:
        names = self.program._core.var_names(self.index)
        return names if self.parent is None else names + self.parent._visible()

    def _own(self, name: str) -> Variable:
        known = self._known.get(name)
        if known is None:
            kind = Parameter if self.program._core.parameter(self.index, name) else Variable
            known = self._known[name] = kind(self, name)
        return known

    def create_var(
        self,
        name: str | None = None,
        shape: Sequence[int | None] = (),
        dtype: Any = "float32",
        persistable: bool = False,
        stop_gradient: bool = False,
    ) -> Variable:
        """A new variable, or the block's variable of that name if it has one already."""
        given, name = name, name or self.program.unique_name("var")
        made = self._create_var(name, shape, dtype, persistable, stop_gradient)
        if given and persistable:
            owners.set_owner(self.program, name, owners.NOBODY)
        return made

    def _create_var(
        self,
        name: str,
        shape: Sequence[int | None],
        dtype: Any,
        persistable: bool = False,
        stop_gradient: bool = False,
    ) -> Variable:
        """The same for a name that is not the user's own word."""
        self.program._core.create_var(
            self.index, name, dtype, shape, persistable, False, False, stop_gradient
        )
        return self._own(name)

    def create_parameter(
        self,
        name: str | None = None,
        shape: Sequence[int] = (),
        dtype: Any = "float32",
        initializer: Initializer | None = None,
        trainable: bool = True,
        optimize_attr: Mapping[str, float] | None = None,
    ) -> Parameter:
        """A new parameter, always in block 0; its initializer goes to the startup program.

        Programs that give a parameter the same name share its value in a scope.
        """
        owner = owners.NOBODY if name else None
        name = name or self.program.unique_name("param")
        return self._create_parameter(
            name, shape, dtype, initializer, trainable, optimize_attr, owner
        )

    def _create_parameter(
        self,
        name: str,
        shape: Sequence[int],
        dtype: Any,
        initializer: Initializer | None,
        trainable: bool,
        optimize_attr: Mapping[str, float] | None,
        owner: int | None,
    ) -> Parameter:
        """The same; without an owner its value is the program's."""
        from opstep.initializer import add_initializer

        home = self.program.global_block()
        if home.has_var(name):
            found = home.var(name)
            wanted = (list(shape), _core.dtype_name(dtype))
            if not isinstance(found, Parameter) or (list(found.shape), found.dtype) != wanted:
                raise Error(
                    f"'{name}' is {found.dtype}{list(found.shape)} already and cannot become a "
                    f"parameter {wanted[1]}{wanted[0]}; give one of them another name"
                )
            return found
        self.program._core.create_var(0, name, dtype, shape, True, True, trainable, False)
        parameter = home._own(name)
        assert isinstance(parameter, Parameter)
        if optimize_attr:
            parameter.optimize_attr = optimize_attr
        if owner is not None:
            owners.set_owner(self.program, name, owner)
        add_initializer(parameter, initializer)
        return parameter

    def append_operator(
        self,
        type: str,
        inputs: Mapping[str, Slot] | None = None,
        outputs: Mapping[str, Slot] | None = None,
        attrs: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Operator:
        """Add an op at the end; the shapes of its outputs are inferred at once."""
        return self._insert(type, inputs, outputs, attrs, name, -1)

    def prepend_operator(
        self,
        type: str,
        inputs: Mapping[str, Slot] | None = None,
        outputs: Mapping[str, Slot] | None = None,
        attrs: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Operator:
        """Add an op before all others."""
        return self._insert(type, inputs, outputs, attrs, name, 0)

    def _insert(
        self,
        type: str,
        inputs: Mapping[str, Slot] | None,
        outputs: Mapping[str, Slot] | None,
        attrs: Mapping[str, Any] | None,
        name: str | None,
        position: int,
    ) -> Operator:
        made = self.program._append_op(
            self.index,
            type,
            name or self.program.unique_name(type),
            {slot: self._names(type, value) for slot, value in (inputs or {}).items()},
            {slot: self._names(type, value) for slot, value in (outputs or {}).items()},
            dict(attrs or {}),
            position,
        )
        return Operator(self.program, made)

    def _names(self, type: str, value: Slot) -> list[str]:
        return origins.names_in(self.program, value, f"[{type}] cannot use")

    def __repr__(self) -> str:
        return f"<block {self.index} of program '{self.program.name}'>"


class Program:
    """A network as data: blocks of ops over variables. `print(program)` shows the listing."""

    def __init__(self, name: str | None = None) -> None:
        self._attach(_core.Program(name or f"program_{next(_numbers)}"))
        owners.enter(self, owners.new_owner(self))

    def _attach(self, core: _core.Program) -> None:
        self._core = core
        self._serial = next(_serials)
        # The owner of its persistable variables, and the owners of those that differ.
        self._owner = owners.NOBODY
        self._owners: dict[str, int] = {}
        # The programs that it was made from, and variables of others that name its own.
        self._origins = origins.own_origin(self)
        self._accepted: WeakSet[Variable] = WeakSet()
        # Layers whose name the user gave: `name=`.
        self._named_layers: set[str] = set()
        self._blocks: list[Block] = []
        self._current = 0
        self._counters: dict[str, int] = {}
        self._startup: Program | None = None
        self._executor: Executor | None = None
        self._seeds_given = 0
        # The Python objects that its reader ops read from.
        self._readers: list[object] = []
        self._layers_here: Any = None
        # Where it finds its values when a run is given no scope.
        self._scope: Scope | None = None
        # opstep.debug.breakpoint() was called: the next op stops an attached debugger.
        self._stop_next = False
        self.random_seed = 0
        """Equal seeds give equal initial parameters."""

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def _layers(self) -> Any:
        """The objects of opstep.imperative.Layer in it."""
        return self._layers_here

    @_layers.setter
    def _layers(self, layers: Any) -> None:
        if layers is None and self._layers_here is None:
            return
        if self._layers_here is None:
            weakref.finalize(self, _core.drop_layer_values, self._core.id)
        self._layers_here = layers
        # A debugger finds the names of their values there.
        _core.set_layer_values(self._core.id, {} if layers is None else layers.values)
        if layers is not None:
            layers.tell_names(self)

    @property
    def blocks(self) -> list[Block]:
        """All blocks; each knows its parent."""
        while len(self._blocks) < self._core.block_count:
            self._blocks.append(Block(self, len(self._blocks)))
        return self._blocks

    def global_block(self) -> Block:
        """Block 0."""
        return self._block(0)

    def current_block(self) -> Block:
        """The block that layers are added to now."""
        return self._block(self._current)

    def _block(self, index: int) -> Block:
        known = self._blocks
        return known[index] if index < len(known) else self.blocks[index]

    def create_block(self, parent: Block | None = None) -> Block:
        """A new block inside `parent` (the current one), which becomes the current one."""
        inside = self._current if parent is None else parent.index
        self._current = self._core.create_block(inside)
        return self.current_block()

    def rollback(self) -> None:
        """Go back to the block around the current one."""
        parent = self.current_block().parent
        if parent is None:
            raise Error("rollback: block 0 has no block around it")
        self._current = parent.index

    def _append_op(
        self,
        block: int,
        type: str,
        name: str,
        inputs: Mapping[str, str | list[str]],
        outputs: Mapping[str, str | list[str]],
        attrs: dict[str, Any],
        position: int,
        made_by: _core.OpOrigin | None = None,
    ) -> int:
        """The op's id. Its lines are those of the calling code, unless `made_by` has them."""
        stop = self._stop_next
        made = self._core.append_op(
            block, type, name, inputs, outputs, attrs, position, stop, made_by
        )
        self._stop_next = False
        return made

    def parameters(self) -> list[Parameter]:
        return [v for v in self.global_block().vars.values() if isinstance(v, Parameter)]

    def unique_name(self, kind: str) -> str:
        """`fc_0`, `fc_1`, …, with the name scopes around it."""
        kind = context.scoped(kind)
        number = self._counters.get(kind, 0)
        self._counters[kind] = number + 1
        return f"{kind}_{number}"

    def to_bytes(self) -> bytes:
        """The program (not the values of its parameters) as a program file's contents."""
        return self._core.serialize()

    @classmethod
    def from_bytes(cls, data: bytes) -> Program:
        """The program that `to_bytes` wrote, checked rule by rule."""
        return cls._from_core(_core.Program.parse(data))

    @classmethod
    def _from_core(cls, core: _core.Program) -> Program:
        program = cls.__new__(cls)
        program._attach(core)
        # New names must not collide with existing ones.
        names = core.op_names() + core.var_names(0)
        for name in names:
            for match in re.finditer(r"_(\d+)(?=\.|$)", name):
                kind, number = name[: match.start()], int(match[1])
                program._counters[kind] = max(program._counters.get(kind, 0), number + 1)
        return program

    def clone(self, for_test: bool = False, name: str | None = None) -> Program:
        """A copy; its ops keep ids and lines, its parameters are found in the scope by name.

        With `for_test`, gradients, the training step, ops that serve only that and ops that write
        files are left out, also in loops, and layers such as dropout and batch_norm are set to
        behave as in a test.
        """
        if for_test:
            return self._part(self._core.for_test(name or f"{self.name}_test"))
        return self._part(self._core.clone(name or f"{self.name}_clone"))

    def prune(self, targets: Slot, name: str | None = None, filled: bool = False) -> Program:
        """A copy with only the ops that compute `targets`, variables of any block.

        With `filled`, ops that `merge` added to give parameters their first values are left out.
        """
        names = origins.names_in(self, targets, "cannot prune to")
        return self._part(self._core.prune(names, name or f"{self.name}_pruned", filled))

    def _part(self, core: _core.Program) -> Program:
        part = Program._from_core(core)
        part.random_seed, part._seeds_given = self.random_seed, self._seeds_given
        part._startup = self._startup
        part._readers = list(self._readers)
        part._layers = self._layers and self._layers.copy()
        part._scope = self._scope
        part._named_layers = set(self._named_layers)
        owners.copy_owners(self, part)
        origins.copied(self, part)
        return part

    def run(
        self,
        feed: Mapping[str | Variable, Any] | None = None,
        fetch_list: Sequence[str | Variable] | None = None,
        scope: Scope | None = None,
    ) -> list[np.ndarray]:
        """Run it once; gives the values of `fetch_list`. The compiled plans are kept."""
        from opstep.executor import Executor

        if self._executor is None:
            self._executor = Executor()
        return self._executor.run(self, feed, fetch_list, scope)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the program to a file, whole or not at all."""
        _core.write_file(file_path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Program:
        """Read a program from a file."""
        data = _core.read_file(file_path(path), _FILE_LIMIT)
        try:
            return cls.from_bytes(data)
        except Error as error:
            raise Error(f"cannot load the program file '{path}': {error}") from None

    def __str__(self) -> str:
        return self._core.listing()

    def __repr__(self) -> str:
        ops = sum(len(block.ops) for block in self.blocks)
        return f"<program '{self.name}': {ops} ops in {len(self.blocks)} blocks>"

    def _repr_html_(self) -> str:
        from opstep.show.tables import program_table

        return program_table(self)
