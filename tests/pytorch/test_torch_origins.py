"""Names, lines and forward ops of the ops that a model becomes."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path

import torch
import torch_models
from torch import nn

import opstep
from opstep.torch import backend
from opstep.torch.compiled_graph import CompiledGraph
from opstep.torch.source_lines import module_path, parse_stack

FILE = torch_models.__file__


def programs(model: nn.Module, *args: torch.Tensor, train: bool = False) -> list[opstep.Program]:
    """Forward and gradient."""
    before = {id(each) for each in gc.get_objects() if type(each) is CompiledGraph}
    with torch.set_grad_enabled(train):
        result = torch.compile(model, backend=backend)(*args)
    if train:
        result.sum().backward()
    made = [e for e in gc.get_objects() if type(e) is CompiledGraph and id(e) not in before]
    found = [e._one.program for e in made if e._one is not None]
    return sorted(found, key=lambda program: program.name)


def line_of(text: str) -> int:
    lines = Path(FILE).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_importing_opstep_does_not_import_torch() -> None:
    code = "import sys, opstep; print('torch' in sys.modules, 'opstep.torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_backend_is_known_by_its_name() -> None:
    assert "opstep" in torch._dynamo.list_backends(exclude_tags=())


def test_ops_are_named_by_module_and_call() -> None:
    (program,) = programs(torch_models.Mlp().eval(), torch.randn(2, 16))
    names = [op.name for op in program.global_block().ops if op.type != "feed"]
    assert names == ["hidden.linear", "gelu", "norm.layer_norm", "out.linear"]


def test_parameters_are_named_by_their_path() -> None:
    (program,) = programs(torch_models.ResNet18(4, 3).eval(), torch.randn(1, 3, 32, 32))
    block = program.global_block()
    wanted = ("conv1.weight", "layer1.0.bn1.running_mean", "layer4.1.conv2.weight", "fc.bias", "x")
    assert all(block.has_var(name) for name in wanted)
    names = {op.name for op in block.ops}
    assert {"layer1.0.conv1.conv2d", "layer2.0.downsample.0.conv2d", "layer1.0.iadd"} <= names


def test_ops_and_gradients_have_the_line_of_the_model() -> None:
    forward, gradient = programs(torch_models.Mlp(), torch.randn(2, 16), train=True)
    line = line_of("return self.out(self.norm(")
    for program in (forward, gradient):
        for op in program.global_block().ops:
            assert (op.stack[0].file, op.stack[0].line) == (FILE, line)
    linked = {op.forward_name for op in gradient.global_block().ops}
    assert linked == {"hidden.linear", "gelu", "norm.layer_norm", "out.linear"}
    assert all(op.forward_name == "" for op in forward.global_block().ops)


def test_gradients_of_parameters_have_their_name() -> None:
    _, gradient = programs(torch_models.Mlp(), torch.randn(2, 16), train=True)
    block = gradient.global_block()
    names = [name for name, _ in torch_models.Mlp().named_parameters()]
    assert all(block.has_var(f"{name}@grad") for name in names)


def test_programs_are_named_by_the_function() -> None:
    forward, gradient = programs(torch_models.ConvNet(), torch.randn(2, 3, 12, 12), train=True)
    assert forward.name.startswith("ConvNet.forward")
    assert gradient.name == forward.name + ".grad"


def test_ops_without_a_line_have_that_of_the_call() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    (program,) = programs(model, torch.randn(2, 3))
    ops = list(program.global_block().ops)
    assert [op.name for op in ops] == ["0.linear", "1.relu"]
    assert all(op.stack and op.stack[0].file == __file__ for op in ops)


class Repeated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x)) + x
        return x


def visits(program: opstep.Program) -> list[int]:
    """The number of the line's execution for each op, from 0."""
    text = program.to_bytes()
    loaded = opstep.Program.from_bytes(text)
    numbers = [op._field("visits")[0] for op in loaded.global_block().ops]
    known = list(dict.fromkeys(numbers))
    return [known.index(number) for number in numbers]


def test_each_round_of_a_loop_is_an_execution_of_its_line() -> None:
    (program,) = programs(Repeated(), torch.randn(2, 3))
    assert visits(program) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_sources_of_dynamo_as_paths() -> None:
    assert module_path("L['self']._modules['layer1']._modules['0']._parameters['weight']") == (
        "layer1.0.weight"
    )
    assert module_path("L['self'].blocks[1].norm") == "blocks.1.norm"
    assert module_path("L['x']") == "x"


def test_frames_of_torch_are_left_out() -> None:
    text = (
        f'  File "/home/me/net.py", line 3, in forward\n    x = f(x)\n        ^^^^\n'
        f'  File "{torch.nn.__file__}", line 9, in call\n    y\n'
    )
    ((file, line, function, column),) = parse_stack(text)
    assert (file, line, function, column) == ("/home/me/net.py", 3, "forward", 8)
