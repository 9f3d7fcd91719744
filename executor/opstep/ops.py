"""Every op of the registry as a function: `ops.matmul(x, w)`, `ops.softmax(X=x, axis=1)`.

Inputs are given in the order of the slots or by name, attributes by name. A Python number where a
variable is expected becomes a constant of the other inputs' dtype. `name=` names the op; an output
slot's name gives the variable (or its name) to write into. `dir(ops)` lists the ops, `help` shows
them.
"""

from __future__ import annotations

import builtins
import inspect
import keyword
import sys
from functools import cached_property
from typing import Any

from opstep import _core, context, errors, foreign_names
from opstep._core import Error
from opstep.operators import Operators
from opstep.program import Operator, Program
from opstep.variable import Variable

_MANY = (list, tuple)
# The variables of a slot: of one, its name is enough.
Names = str | list[str]

_MOST_OUTPUTS = 65_535


class OpFunction(_core.OpFunction):
    """Adds an op of one type to the current block and gives its outputs."""

    def __init__(self, op_type: str) -> None:
        self.type = op_type
        self.__name__ = self.__qualname__ = op_type

    # From the registry when they are first needed, so that importing opstep.layers costs little.

    @cached_property
    def _schema(self) -> dict[str, Any]:
        return _core.op(self.type)

    @cached_property
    def _inputs(self) -> list[str]:
        return [slot["name"] for slot in self._schema["inputs"]]

    @cached_property
    def _outputs(self) -> list[dict[str, Any]]:
        return self._schema["outputs"]

    @cached_property
    def _given(self) -> list[str]:
        """Output slots that a call returns."""
        return [slot["name"] for slot in self._outputs if not slot["of_block"]]

    @cached_property
    def _gives_many(self) -> bool:
        return any(slot["variadic"] for slot in self._outputs)

    @cached_property
    def _kinds(self) -> dict[str, str]:
        kinds = dict.fromkeys(_own_keywords(self._schema), "op name")
        kinds |= {attr["name"]: "attr" for attr in self._schema["attrs"]}
        kinds |= {slot["name"]: "output" for slot in self._outputs}
        return kinds | dict.fromkeys(self._inputs, "input")

    @cached_property
    def _tracer(self) -> _core.OpTracer:
        """Runs the op at once."""
        return _core.OpTracer(self.type)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return _document(self._schema)

    @property
    def __signature__(self) -> inspect.Signature:
        return _signature(self._schema)

    @cached_property
    def takes_one_input(self) -> bool:
        """Can it be called with one variable and nothing else, as activations are?"""
        needed = [slot for slot in self._schema["inputs"] if not slot["optional"]]
        required = any(attr["required"] for attr in self._schema["attrs"])
        return len(needed) == 1 and not required and len(self._outputs) == 1

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        # The calls that _core.OpFunction does not handle: it runs an op at once.
        if len(args) > len(self._inputs):
            takes = ", ".join(self._inputs) or "none"
            raise self._error(f"takes the inputs {takes}, but {len(args)} were given")
        inputs: dict[str, Any] = dict(zip(self._inputs, args, strict=False))
        outputs: dict[str, Any] = {}
        attrs: dict[str, Any] = {}
        name = ""
        kinds = self._kinds
        for key, value in kwargs.items():
            kind = kinds.get(key)
            if kind is None:
                near = _core.nearest(key, list(kinds))
                hint = f"; did you mean '{near}'?" if near else ""
                raise self._error(f"has no argument '{key}'{hint}")
            if value is None:
                continue
            if kind == "op name":
                name = value
            elif kind == "attr":
                attrs[key] = value
            elif kind == "output":
                outputs[key] = value
            elif key in inputs:
                raise self._error(f"got the input '{key}' twice")
            else:
                inputs[key] = value
        return self._append(inputs, outputs, attrs, name)

    def _append(
        self,
        inputs: dict[str, Any],
        outputs: dict[str, Any],
        attrs: dict[str, Any],
        name: str = "",
        program: Program | None = None,
    ) -> Any:
        if program is None and context._context.imperative:
            return self._tracer(inputs, outputs, attrs, name or context.scoped(self.type))
        trace = context._context.trace
        if trace is not None:
            inputs = {key: trace.lifted(value) for key, value in inputs.items()}
        like, found = self._program(inputs, outputs)
        guarded = context.guarded_program()
        if program is None and like is not None and guarded not in (None, found):
            raise self._error(
                f"'{like.name}' belongs to program '{like.program.name}', but layers are added to "
                f"'{guarded.name}' here; build each program with its own variables"
            )
        program = program or found or context.default_main_program()
        block = program.current_block()
        sources: dict[str, Names] = {}
        for key, value in inputs.items():
            if value is not None:
                sources[key] = self._sources(key, value, like)
        name = name or program.unique_name(self.type)
        targets: dict[str, Names] = {}
        for slot in self._outputs:
            key = slot["name"]
            if slot["captures"]:
                continue  # filled in from what the blocks do
            if key in outputs:
                targets[key] = _targets(outputs[key])
            elif slot["variadic"]:
                count = attrs.get("num_outputs") or len(attrs.get("split", ()))
                if not isinstance(count, int) or not 1 <= count <= _MOST_OUTPUTS:
                    raise self._error(
                        f"gives between 1 and {_MOST_OUTPUTS:,} {key}: say which variables to write"
                    )
                targets[key] = [f"{name}.{key}_{i}" for i in range(count)]
            elif not slot["optional"]:
                targets[key] = f"{name}.{key}"
        made = program._append_op(block.index, self.type, name, sources, targets, attrs, -1)
        results: list[Variable] = []
        for key in self._given:
            target = targets.get(key, ())
            if isinstance(target, str):
                results.append(block.var(target))
            else:
                results += map(block.var, target)
        if len(results) == 1 and not self._gives_many:
            return results[0]
        return tuple(results) if results else Operator(program, made)

    def _program(
        self, inputs: dict[str, Any], outputs: dict[str, Any]
    ) -> tuple[Variable | None, Program | None]:
        """The first variable, and the program that all variables belong to."""
        like: Variable | None = None
        program: Program | None = None
        for value in (*inputs.values(), *outputs.values()):
            for item in value if isinstance(value, _MANY) else (value,):
                if not isinstance(item, Variable):
                    continue
                if like is None:
                    like, program = item, item.block.program
                elif program is not item.block.program:
                    raise self._error(
                        f"'{item.name}' belongs to program '{item.program.name}', the other "
                        f"variables to '{like.program.name}'; build each program with its own "
                        "variables"
                    )
        return like, program

    def _sources(self, slot: str, value: Any, like: Variable | None) -> Names:
        if isinstance(value, Variable):
            return value.name
        if isinstance(value, _MANY):
            return [
                item.name if isinstance(item, Variable) else self._constant(slot, item, like)
                for item in value
            ]
        return self._constant(slot, value, like)

    def _constant(self, slot: str, value: Any, like: Variable | None) -> str:
        if isinstance(value, str):
            return value
        number = not isinstance(value, Operators) and (
            isinstance(value, int | float) or (hasattr(value, "item") and value.ndim == 0)
        )
        if like is None or not number:
            raise self._error(f"{slot} must be a variable, not {_kind(value)}")
        value = value if isinstance(value, int | float) else value.item()
        if not like.dtype.startswith(("float", "bfloat")) and not float(value).is_integer():
            raise self._error(
                f"{slot} is {value}, which '{like.name}' of dtype {like.dtype} cannot meet; "
                "cast it to float32 first"
            )
        attrs = {"shape": [], "dtype": like.dtype, "value": value}
        return sys.modules[__name__].fill._append({}, {}, attrs, program=like.program).name

    def _error(self, what: str) -> Error:
        return errors.error(f"[{self.type}] {what}")

    def __repr__(self) -> str:
        return f"<function ops.{self.type}>"


def _targets(value: Any) -> Names:
    if isinstance(value, _MANY):
        return [item.name if isinstance(item, Variable) else str(item) for item in value]
    return value.name if isinstance(value, Variable) else str(value)


def _kind(value: Any) -> str:
    if value is None:
        return "None"
    if isinstance(value, Operators):
        return "a runtime value: use those inside opstep.imperative.guard() only"
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        return "an array; feed it, or make it a variable with layers.constant"
    return f"a {type(value).__name__}"


def _own_keywords(schema: dict[str, Any]) -> list[str]:
    """`name`, or `op_name` for an op that has an attribute called name."""
    taken = any(attr["name"] == "name" for attr in schema["attrs"])
    return ["op_name" if taken else "name"]


def _signature(schema: dict[str, Any]) -> inspect.Signature:
    Parameter = inspect.Parameter
    inputs = [
        Parameter(
            slot["name"],
            Parameter.POSITIONAL_OR_KEYWORD,
            default=None if slot["optional"] else Parameter.empty,
        )
        for slot in sorted(schema["inputs"], key=lambda slot: slot["optional"])
    ]
    attrs = [
        Parameter(
            attr["name"],
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if attr["required"] else attr["default"],
        )
        for attr in schema["attrs"]
    ]
    taken = {parameter.name for parameter in inputs + attrs}
    others = [slot["name"] for slot in schema["outputs"]] + _own_keywords(schema)
    rest = [Parameter(n, Parameter.KEYWORD_ONLY, default=None) for n in others if n not in taken]
    return inspect.Signature(inputs + attrs + rest)


def _document(schema: dict[str, Any]) -> str:
    lines = [schema["doc"]]
    for title, slots in (("Inputs", schema["inputs"]), ("Outputs", schema["outputs"])):
        if slots:
            lines += ["", f"{title}:"]
        for slot in slots:
            notes = [word for word in ("optional", "variadic") if slot[word]]
            types = ", ".join(slot["dtypes"] + notes)
            lines.append(f"    {slot['name']}: {slot['doc']} ({types})")
    if schema["attrs"]:
        lines += ["", "Attributes:"]
    for attr in schema["attrs"]:
        default = "required" if attr["required"] else f"default {attr['default']!r}"
        lines.append(f"    {attr['name']} ({attr['type']}, {default}): {attr['doc']}")
    return "\n".join(lines)


_types = frozenset(_core.op_types())
_functions: dict[str, OpFunction] = {}


def _function(op_type: str) -> OpFunction:
    if op_type not in _functions:
        _functions[op_type] = OpFunction(op_type)
    return _functions[op_type]


def __getattr__(name: str) -> OpFunction:
    # `ops.while_`: the name of a Python keyword gets an underscore.
    op_type = name[:-1] if name.endswith("_") and keyword.iskeyword(name[:-1]) else name
    if op_type not in _types:
        near = _core.nearest(name, _core.op_types())
        hint = foreign_names.hint(name) or (f"; did you mean '{near}'?" if near else "")
        raise AttributeError(f"there is no op '{name}'{hint}")
    function = _function(op_type)
    # `ops.range` must not hide Python's from the code here.
    if not hasattr(builtins, name):
        globals()[name] = function
    return function


def __dir__() -> list[str]:
    return [f"{name}_" if keyword.iskeyword(name) else name for name in _core.op_types()]
