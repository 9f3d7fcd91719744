"""Recurrent networks: a block that runs for each step of sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opstep import ops
from opstep._core import Error
from opstep.errors import error
from opstep.layers.control_flow import check_mode, names_of, new_block
from opstep.program import Block
from opstep.variable import Variable


class Recurrent:
    """Runs its block for each step of sequences, with memories from step to step.

    rnn = layers.Recurrent()
    with rnn.step():
        word = rnn.step_input(words)                      # [steps, batch, 16] -> [batch, 16]
        before = rnn.memory(shape=[32])                   # zeros first
        hidden = layers.fc(layers.concat([word, before], axis=1), size=32, act="tanh")
        rnn.update(before, hidden)
        rnn.output(hidden)
    hiddens = rnn()                                       # [steps, batch, 32]

    For a ragged variable, [rows, 16] in sequences, a step also has a row for each sequence. When a
    sequence has ended, its memories stay as they are. The outputs are ragged again.
    """

    def __init__(self, reverse: bool = False, name: str | None = None) -> None:
        check_mode("Recurrent")
        self.reverse = reverse
        self.name = name
        self.final: list[Variable] = []
        """After the call: the memories after the last step of each sequence."""
        self._block: Block | None = None
        self._sequences: list[Variable] = []
        self._steps: list[Variable] = []
        self._memories: list[tuple[Variable, Variable]] = []
        self._updates: dict[str, Variable] = {}
        self._outputs: list[Variable] = []
        self._open = False
        # The ragged variables behind the sequences, if they are.
        self._ragged: list[Variable] = []

    @contextmanager
    def step(self) -> Iterator[Block]:
        """Layers made inside the `with` are one step."""
        from opstep import context

        if self._block is not None:
            raise Error("this Recurrent has its block already: make another Recurrent")
        program = context.default_main_program()
        self.name = self.name or program.unique_name(ops.recurrent.type)
        with new_block(program) as block:
            self._block, self._open = block, True
            try:
                yield block
                self._keep_ended()
            finally:
                self._open = False

    def _inside(self, what: str) -> Block:
        if not self._open or self._block is None:
            raise Error(f"Recurrent.{what} is for the inside of its `with rnn.step():`")
        return self._block

    @contextmanager
    def _around(self, block: Block) -> Iterator[None]:
        """Layers made inside the `with` go before the Recurrent."""
        program = block.program
        program._current = block.parent.index if block.parent else 0
        try:
            yield
        finally:
            program._current = block.index

    def step_input(self, sequence: Variable) -> Variable:
        """One step of a sequence [steps, ...], or of a ragged variable."""
        block = self._inside("step_input")
        if not sequence.shape:
            raise Error(f"'{sequence.name}' is a scalar: a sequence's first axis is its steps")
        if self._sequences and bool(self._ragged) != bool(sequence.lod_level):
            raise Error(
                f"'{sequence.name}' and '{(self._ragged or self._sequences)[0].name}' cannot be "
                "steps of one Recurrent: one is ragged and the other is not"
            )
        if not sequence.lod_level:
            return self._step_of(sequence)
        self._ragged.append(sequence)
        level = sequence.lod[-1]
        with self._around(block):
            padded = ops.sequence_pad(
                sequence,
                level.offsets,
                level.steps,
                name=f"{self.name}.pad_{len(self._ragged) - 1}",
            )
        return self._step_of(padded)

    def _step_of(self, sequence: Variable) -> Variable:
        block = self._inside("step_input")
        self._sequences.append(sequence)
        name = f"{self.name}.step_{len(self._steps)}"
        self._steps.append(block.create_var(name, sequence.shape[1:], sequence.dtype))
        return self._steps[-1]

    def memory(
        self,
        initial: Variable | None = None,
        shape: Sequence[int] | None = None,
        value: float = 0.0,
        dtype: Any = "float32",
    ) -> Variable:
        """The value after the previous step: at first `initial`, or `value` in this `shape`."""
        block = self._inside("memory")
        number = len(self._memories)
        if initial is None:
            if shape is None or not self._sequences:
                raise Error(
                    "a memory needs its initial value, or a shape and a step_input before it"
                )
            with self._around(block):
                initial = ops.fill_batch(
                    self._sequences[0],
                    axis=1,
                    shape=shape,
                    value=value,
                    dtype=dtype,
                    name=f"{self.name}.initial_{number}",
                )
        elif initial.block.index == block.index:
            raise error(
                f"'{initial.name}' is made inside the step, where a memory cannot begin: make it "
                "before `with rnn.step():`, or give the memory a shape and a value"
            )
        name = f"{self.name}.memory_{number}"
        memory = block.create_var(name, initial.shape, initial.dtype)
        self._memories.append((memory, initial))
        return memory

    def update(self, memory: Variable, value: Variable) -> None:
        """The value of `memory` for the next step."""
        self._inside("update")
        if all(memory.name != known.name for known, _ in self._memories):
            raise Error(f"'{memory.name}' is not a memory of this Recurrent")
        self._updates[memory.name] = value

    def output(self, *values: Variable) -> None:
        """Keep these values of each step."""
        self._inside("output")
        self._outputs.extend(values)

    def _keep_ended(self) -> None:
        """Keeps the memories of sequences that have ended as they are."""
        if not self._ragged:
            return
        running: dict[int, Variable] = {}
        for number, (memory, _) in enumerate(self._memories):
            if memory.name not in self._updates:
                continue
            rank = len(memory.shape)
            if rank not in running:
                running[rank] = self._running(rank)
            self._updates[memory.name] = ops.where(
                running[rank],
                self._updates[memory.name],
                memory,
                name=f"{self.name}.keep_{number}",
            )

    def _running(self, rank: int) -> Variable:
        """Which sequences have this step, for tensors of that rank."""
        assert self._block is not None
        level = self._ragged[0].lod[-1]
        with self._around(self._block):
            mask = ops.sequence_mask(
                offsets=[each.lod[-1].offsets for each in self._ragged],
                steps=level.steps,
                name=f"{self.name}.mask_{rank}",
            )
            if rank > 1:
                axes = list(range(2, rank + 1))
                mask = ops.unsqueeze(mask, axes=axes, name=f"{self.name}.running_{rank}")
        return self._step_of(mask)

    def __call__(self) -> Any:
        """The outputs of all steps, [steps, ...] each; ragged if the step inputs are."""
        if self._block is None or self._open:
            raise Error("a Recurrent needs its steps first: with rnn.step(): ...")
        for memory, _ in self._memories:
            if memory.name not in self._updates:
                raise Error(f"memory '{memory.name}' is never updated: call rnn.update(...)")
        slot = "padded" if self._ragged else "out"
        outs = names_of(f"{self.name}", slot, len(self._outputs))
        finals = names_of(f"{self.name}", "final", len(self._memories))
        ops.recurrent(
            sequences=self._sequences,
            initial=[initial for _, initial in self._memories],
            updates=[self._updates[memory.name] for memory, _ in self._memories],
            step_outputs=self._outputs,
            block=self._block,
            reverse=self.reverse,
            step_inputs=[step.name for step in self._steps],
            memories=[memory.name for memory, _ in self._memories],
            outputs=outs,
            final=finals,
            name=self.name,
        )
        block = self._block.program.current_block()
        self.final = [block.var(name) for name in finals]
        made = [block.var(name) for name in outs]
        if self._ragged:
            made = self._unpadded(made)
        return made[0] if len(made) == 1 else tuple(made)

    def _unpadded(self, padded: list[Variable]) -> list[Variable]:
        like = self._ragged[0]
        for memory in self.final:
            memory._set_lod(like.lod[:-1])
        names = names_of(f"{self.name}", "out", len(padded))
        return [
            ops.sequence_unpad(
                each, like.lod[-1].offsets, like, out=name, name=f"{self.name}.unpad_{number}"
            )
            for number, (each, name) in enumerate(zip(padded, names, strict=True))
        ]
