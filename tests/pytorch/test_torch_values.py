"""Values that are easy to get wrong: layouts, aliases, changes in place, dtypes, sizes."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from compared import same, total
from torch.nn import functional as F

import opstep


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


# --- layouts and aliases


def test_inputs_with_gaps_and_in_another_order() -> None:
    x = randn(6, 8)
    same(lambda a, b: a.relu() + b, x[::2, 1:5], x.t()[:4, :3].t())
    same(lambda a: a.relu(), randn(2, 3, 4, 5).to(memory_format=torch.channels_last))
    same(lambda a: a * 2, randn(3, 1).expand(3, 4))


def test_results_have_the_strides_of_eager() -> None:
    same(lambda a: a.permute(1, 0, 2).relu(), randn(2, 3, 4))
    same(lambda a: (a.t() + 1, a.t()), randn(2, 3))
    x = randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    same(lambda a, w: F.conv2d(a, w).relu(), x, randn(4, 3, 3, 3))


def test_results_that_are_views_of_inputs_and_of_one_another() -> None:
    def views(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        b = a.relu()
        return a[1:], a.view(-1), b, b[:, 1], b.t()

    x = randn(3, 4)
    first, flat, b, column, flipped = torch.compile(views, backend="opstep")(x)
    first.zero_()
    assert not x[1:].any() and flat.data_ptr() == x.data_ptr()
    b.fill_(7)
    assert (column == 7).all() and (flipped == 7).all()
    torch._dynamo.reset()
    same(views, randn(3, 4))


def test_results_outlive_the_next_call() -> None:
    compiled = torch.compile(lambda a: (a * 2).t(), backend="opstep")
    one = compiled(torch.ones(2, 3))
    compiled(torch.zeros(2, 3))
    assert (one == 2).all()


def test_changes_in_place_arrive() -> None:
    def change(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(2)
        b[1:].add_(a[1:])
        return a + b

    same(change, randn(3, 4), randn(3, 4))
    same(lambda a: a.t().add_(1), randn(3, 4))


def test_an_input_that_comes_back_is_the_input() -> None:
    x = randn(3)
    assert torch.compile(lambda a: (a, a + 1), backend="opstep")(x)[0] is x


def test_empty_tensors_and_numbers() -> None:
    same(lambda a: (a + 1, a.sum(), a.reshape(3, 0)), randn(0, 3))
    same(lambda a, b: torch.cat([a, b]), randn(0), randn(2, 3))
    same(lambda a: a.sum() * 2, torch.tensor(3.0))
    same(lambda a: F.linear(a, torch.ones(2, 3)), randn(0, 3))


def test_more_dimensions_than_the_executor_has() -> None:
    same(lambda a: a.relu() + 1, randn(1, 2, 1, 2, 1, 2, 1, 2, 2))


# --- dtypes

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32,
          torch.int16, torch.int8, torch.uint8, torch.bool)  # fmt: skip


def some(dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([[0, 1, 2], [3, 5, 100]]).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_promotion(dtype: torch.dtype) -> None:
    others = [some(other)[:1] for other in DTYPES]

    def mixed(a: torch.Tensor, others: list[torch.Tensor]) -> list[torch.Tensor]:
        made = []
        for b in others:
            made += [a + b, a * b, a / (b + 1), a > b, a == b, torch.where(a > b, a, b)]
            row = b.reshape(1, -1)[:, :1].expand(1, 3)
            made += [torch.maximum(a, b), torch.minimum(a, b), torch.cat([a, row])]
        return made

    same(mixed, some(dtype), others)
    same(mixed, some(dtype), [b[0, 1] for b in others])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("number", [2, 0.1, True, -3])
def test_promotion_with_numbers(dtype: torch.dtype, number: float) -> None:
    def mixed(a: torch.Tensor) -> list[torch.Tensor]:
        return [a + number, a * number, a / number, a >= number, torch.add(a, a, alpha=2)]

    same(mixed, some(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_conversions(dtype: torch.dtype) -> None:
    values = torch.tensor([0.0, -1.5, 2.5, 0.4, 100.0])
    if dtype == torch.uint8:
        values = values.abs()
    same(lambda a: a.to(dtype), values)
    same(lambda a: [a.to(other) for other in DTYPES], some(dtype))


@pytest.mark.parametrize("dtype", DTYPES[:4], ids=str)
def test_special_values(dtype: torch.dtype) -> None:
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5]).to(dtype)

    def functions(a: torch.Tensor) -> list[torch.Tensor]:
        made = [a.relu(), a.clamp(-1, 1), a.clamp(min=0), a.sign(), a.round(), a.sqrt(), a.log()]
        made += [a.abs(), a.isnan(), a == a, a > 0, torch.maximum(a, -a), a.softmax(0), a**2]
        made += [a**0.5, a**-1, a**3, F.gelu(a[3:]), F.silu(a), a.sigmoid(), a.tanh(), a.exp()]
        return [*made, a.amax(), a.sum(), a.cumsum(0), F.hardtanh(a), F.leaky_relu(a), F.elu(a)]

    same(functions, x)


def test_integer_division_and_remainders() -> None:
    a = torch.tensor([7, -7, 7, -7, 0])
    b = torch.tensor([2, 2, -2, -2, 3])

    def divide(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
        floor = torch.div(a, b, rounding_mode="floor")
        return [a // b, a % b, torch.fmod(a, b), floor, torch.div(a, b, rounding_mode="trunc")]

    same(divide, a, b)
    same(divide, a.double(), b.double())
    torch._dynamo.reset()
    with pytest.raises(opstep.Error, match=r"ZeroDivisionError.*test_torch_values\.py:\d+"):
        torch.compile(lambda a: a // 0, backend="opstep")(a)


def test_complex_numbers_run_in_torch() -> None:
    x = torch.randn(3, 4, dtype=torch.complex64)
    count = same(lambda a: (a * 2j + a.conj(), torch.fft.fft(a).abs()), x)
    assert count.foreign


def test_dtypes_that_no_op_here_has() -> None:
    same(lambda a: a.to(torch.uint16), torch.tensor([1, 2, 3]))
    same(lambda a: a.to(torch.float8_e4m3fn).to(torch.float32), randn(4))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_models(dtype: torch.dtype) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8))
    model.to(dtype)
    x = randn(4, 8, dtype=dtype)
    got, wanted = torch.compile(model, backend="opstep")(x), model(x)
    assert got.dtype == dtype
    torch.testing.assert_close(got, wanted, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_batch_norm_of_half_floats(dtype: torch.dtype) -> None:
    ours = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3)).to(dtype)
    theirs = copy.deepcopy(ours)
    x = randn(4, 2, 6, 6, dtype=dtype)
    for model, compiled in ((ours, torch.compile(ours, backend="opstep")), (theirs, theirs)):
        total(compiled(x)).backward()
        model.eval()
        compiled(x)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=0.05, atol=0.05)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=0.02, atol=0.02)


# --- indices that are not valid


@pytest.mark.parametrize("index", [-1, 5])
def test_an_index_outside_is_an_error_as_in_eager(index: int) -> None:
    table, at = randn(5, 3), torch.tensor([0, index])
    compiled = torch.compile(lambda t, i: F.embedding(i, t), backend="opstep")
    with pytest.raises(
        Exception, match=rf"index {index} is out of range.*test_torch_values\.py:\d+"
    ):
        compiled(table, at)


def test_negative_indices_count_from_the_end_where_they_do_in_eager() -> None:
    same(lambda t, i: t[i], randn(5, 3), torch.tensor([0, -1, 4]))


# --- sizes, randomness, control flow


def test_dynamic_sizes_need_no_new_compilation() -> None:
    graphs = torch._dynamo.testing.CompileCounterWithBackend("opstep")
    linear = torch.nn.Linear(4, 3)

    def f(a: torch.Tensor) -> torch.Tensor:
        return linear(a).view(a.shape[0] * 3).relu() + a.shape[0]

    compiled = torch.compile(f, backend=graphs, dynamic=True)
    for size in (5, 2, 7, 5, *range(3, 30)):
        x = randn(size, 4)
        torch.testing.assert_close(compiled(x), f(x))
    assert graphs.frame_count == 1


def test_gradients_of_dynamic_sizes() -> None:
    linear = torch.nn.Linear(4, 3)
    compiled = torch.compile(lambda a: linear(a).tanh().sum(0), backend="opstep", dynamic=True)
    for size in (5, 2, 6):
        x = randn(size, 4)
        gradients = []
        for f in (compiled, lambda a: linear(a).tanh().sum(0)):
            linear.zero_grad()
            f(x).sum().backward()
            gradients.append(linear.weight.grad.clone())
        torch.testing.assert_close(*gradients)


def test_random_numbers_are_those_of_eager() -> None:
    same(lambda a: (F.dropout(a, 0.5), torch.rand(3), torch.randn_like(a)), randn(50), exact=True)
    same(lambda a: torch.bernoulli(a.sigmoid()), randn(50), exact=True)


def test_dropout_has_the_gradients_of_eager() -> None:
    x = randn(50).requires_grad_()
    same(lambda a: F.dropout(a, 0.5) * a, x, gradients=True)


def test_branches_run_in_torch() -> None:
    def f(a: torch.Tensor) -> torch.Tensor:
        return torch.cond(a.sum() > 0, lambda x: x + 1, lambda x: x - 1, (a,))

    for x in (torch.ones(3), -torch.ones(3)):
        torch._dynamo.reset()
        same(f, x)


def test_graph_breaks() -> None:
    def f(a: torch.Tensor) -> torch.Tensor:
        b = a.relu() + 1
        torch._dynamo.graph_break()
        return b * 2

    x = randn(4)
    torch.testing.assert_close(torch.compile(f, backend="opstep")(x), f(x))


def test_a_second_derivative_is_refused_as_by_every_backend() -> None:
    x = randn(3).requires_grad_()
    (y,) = torch.autograd.grad(
        torch.compile(lambda a: (a**3).sum(), backend="opstep")(x), x, create_graph=True
    )
    with pytest.raises(RuntimeError, match="double backward"):
        y.sum().backward()


# --- gradients of single functions

FUNCTIONS = {
    "add": lambda a, b: a + b * a / (b.abs() + 1),
    "broadcast": lambda a, b: a * b[0] + b[:, :1],
    "reduce": lambda a, b: a.mean(1) + b.sum(0)[:3] + a.amax(),
    "shapes": lambda a, b: torch.cat([a.t(), b.t()], 1)[1:, ::2].reshape(-1).unsqueeze(0),
    "select": lambda a, b: a[1] + b[:, 2:3].squeeze(1)[0],
    "split": lambda a, b: a.split([1, 3], 1)[1] + torch.stack(b.unbind(1)[:3], 1),
    "softmax": lambda a, b: a.softmax(-1) + b.log_softmax(0),
    "activations": lambda a, b: F.gelu(a) + F.silu(b) + a.tanh() * b.sigmoid() + F.relu(a),
    "leaky": lambda a, b: F.leaky_relu(a) + F.elu(b) + F.hardtanh(a) + F.mish(b),
    "norm": lambda a, b: F.layer_norm(a, (4,), b[0], b[1]),
    "products": lambda a, b: a @ b.t() + torch.addmm(a[:, :3], b, a.t(), beta=0.5, alpha=2),
    "powers": lambda a, b: (a.abs() + 0.1) ** 1.5 + (b**2).sqrt() + b.abs().rsqrt(),
    "index": lambda a, b: a[torch.tensor([0, 2, 0])] + b.index_select(0, torch.tensor([1, 1, 2])),
    "gather": lambda a, b: a.gather(1, torch.tensor([[0, 3], [1, 1], [2, 0]])) + b[:, :2],
    "pad": lambda a, b: F.pad(a, (1, 2, 0, 1)) + F.pad(b, (1, 2, 0, 1), value=3.0),
    "where": lambda a, b: torch.where(a > b, a, 2.0) + a.masked_fill(b > 0, 1.0) + a.clamp(-1, 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name: str) -> None:
    args = [randn(3, 4).double().requires_grad_() for _ in range(2)]
    same(FUNCTIONS[name], *args, gradients=True)


def test_gradients_of_layers_with_images() -> None:
    def f(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        x = F.conv2d(x, w, b, stride=2, padding=1, groups=2)
        x = F.avg_pool2d(F.max_pool2d(x, 3, 1, 1), 2, count_include_pad=False)
        return F.conv_transpose2d(x, w, stride=2, output_padding=1)

    args = (randn(2, 4, 12, 12), randn(4, 2, 3, 3), randn(4))
    same(f, *(a.double().requires_grad_() for a in args), gradients=True)


def test_gradients_of_an_embedding_and_attention() -> None:
    def f(table: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        x = F.embedding(torch.tensor([[1, 2, 2], [0, 4, 1]]), table)
        q = (x @ w).view(2, 3, 2, 4).transpose(1, 2)
        return F.scaled_dot_product_attention(q, q, q, is_causal=True).transpose(1, 2).flatten(2)

    same(f, *(randn(*s).requires_grad_() for s in ((5, 8), (8, 8))), gradients=True)


# --- what the executor cannot hold


def test_a_graph_that_the_executor_cannot_hold_runs_in_torch() -> None:
    x = randn(3, 3).relu().to_sparse()
    got = torch.compile(lambda a: torch.sparse.mm(a, torch.ones(3, 3)) + 1, backend="opstep")(x)
    torch.testing.assert_close(got, x.to_dense() @ torch.ones(3, 3) + 1)


def test_as_strided_may_reach_beyond_a_view() -> None:
    x = randn(4, 4)
    same(lambda a: a.as_strided((2, 2), (1, 2), 3) + 1, x)
    wanted = x[1].as_strided((2, 2), (1, 2), 9) + 1
    compiled = torch.compile(lambda a: a.as_strided((2, 2), (1, 2), 9) + 1, backend="opstep")
    torch.testing.assert_close(compiled(x[1]), wanted)


def test_a_custom_op_is_a_foreign_op_and_its_error_has_the_users_line() -> None:
    @torch.library.custom_op("opstep_tests::root", mutates_args=())
    def root(x: torch.Tensor) -> torch.Tensor:
        if (x < 0).any():
            raise ValueError("a root of a negative number")
        return x.sqrt()

    root.register_fake(torch.empty_like)
    compiled = torch.compile(lambda a: root(a) + 1, backend="opstep")
    torch.testing.assert_close(compiled(torch.ones(3)), torch.full((3,), 2.0))
    said = r"ValueError: a root of a negative number.*test_torch_values\.py:\d+"
    with pytest.raises(opstep.Error, match=said) as caught:
        compiled(-torch.ones(3))
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_check_without_a_result_still_checks() -> None:
    compiled = torch.compile(lambda a: F.one_hot(a, 3) * 2, backend="opstep")
    torch.testing.assert_close(
        compiled(torch.tensor([0, 2])), F.one_hot(torch.tensor([0, 2]), 3) * 2
    )
    with pytest.raises(opstep.Error, match="smaller than num_classes"):
        compiled(torch.tensor([0, 3]))


def test_two_threads_compile_and_run_at_the_same_time() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    compiled = torch.compile(model, backend="opstep")
    inputs = [randn(4, 8) for _ in range(8)]
    with ThreadPoolExecutor(2) as pool:
        got = list(pool.map(lambda x: compiled(x).detach(), inputs))
    for ours, x in zip(got, inputs, strict=True):
        torch.testing.assert_close(ours, model(x).detach())
