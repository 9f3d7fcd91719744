"""Words of other libraries: what they are called here, for the end of error sentences."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from opstep import _core
from opstep.errors import error

F = TypeVar("F", bound=Callable[..., Any])

# Functions of PyTorch and NumPy → how to write it.
FUNCTIONS = {
    "adaptive_avg_pool2d": "ops.global_average_pool(x) for output size 1",
    "addmm": "ops.gemm(a, b, c)",
    "amax": "ops.reduce_max(x, axes=...)",
    "amin": "ops.reduce_min(x, axes=...)",
    "arange": "ops.range, or layers.constant(np.arange(...))",
    "argmax": "layers.arg_max(x, axis=...)",
    "argmin": "layers.arg_min(x, axis=...)",
    "as_tensor": "layers.constant(array), or opstep.imperative.to_variable(array)",
    "avg_pool2d": "layers.pool2d(x, ...)",
    "binary_cross_entropy_with_logits": "ops.softplus(x) - x * target",
    "bmm": "ops.matmul(x, y), which takes batches",
    "cat": "layers.concat([x, y], axis=...)",
    "chunk": "ops.split(x, num_outputs=..., axis=...)",
    "clamp": "ops.clip(x, min=..., max=...)",
    "contiguous": "x itself: every value is contiguous",
    "div_": "x / y",
    "einsum": "ops.matmul, ops.transpose and ops.reduce_sum",
    "eye": "layers.constant(np.eye(n, dtype=np.float32))",
    "flip": "x[::-1]",
    "from_numpy": "layers.constant(array), or opstep.imperative.to_variable(array)",
    "full": "layers.fill(shape, value)",
    "index_select": "ops.gather(x, indices, axis=...)",
    "l1_loss": "ops.reduce_mean(ops.abs(x - y))",
    "linspace": "layers.constant(np.linspace(start, end, n, dtype=np.float32))",
    "logsumexp": "ops.reduce_log_sum_exp(x, axes=...)",
    "Linear": "layers.fc(x, size=...), or opstep.imperative.FC",
    "manual_seed": "program.random_seed = n",
    "masked_fill": "ops.where(mask, value, x)",
    "max_pool2d": "layers.pool2d(x, ...)",
    "mm": "ops.matmul(x, y)",
    "mse_loss": "ops.reduce_mean(layers.square_error_cost(x, y))",
    "mul_": "x * y",
    "norm": "ops.reduce_l2(x, axes=...)",
    "permute": "ops.transpose(x, perm=[...])",
    "prod": "ops.reduce_prod(x, axes=...)",
    "rand": "ops.uniform(shape=..., min=0, max=1)",
    "randn": "ops.normal(shape=...)",
    "std": "ops.sqrt of the mean of (x - x.mean()) ** 2",
    "take_along_dim": "ops.gather_elements(x, indices, axis=...)",
    "tensor": "layers.constant(array), or opstep.imperative.to_variable(array)",
    "topk": "ops.top_k(x, k=...)",
    "tril": "ops.tri(x, upper=False)",
    "triu": "ops.tri(x, upper=True)",
    "var": "the mean of (x - x.mean()) ** 2",
    "view": "x.reshape(...)",
}

# Names of the package itself elsewhere → how to write it.
PACKAGE = dict(  # noqa: C408 (an op is named in quotes in its own file only)
    load="opstep.load_params or opstep.load_model",
    nn="opstep.layers",
    no_grad="opstep.imperative.no_grad()",
    optim="opstep.optimizer",
    save="opstep.save_params or opstep.save_model",
    Tensor="opstep.imperative.Value",
)

# Arguments elsewhere → those that ours may have instead.
WORDS: dict[str, tuple[str, ...]] = {
    "lr": ("learning_rate",),
    "betas": ("beta1",),
    "eps": ("epsilon",),
    "l2": ("weight_decay",),
    "out_channels": ("filters", "size"),
    "out_features": ("size",),
    "units": ("size",),
    "num_filters": ("filters",),
    "filter_size": ("kernel",),
    "kernel_size": ("kernel",),
    "strides": ("stride",),
    "pads": ("padding",),
    "activation": ("act",),
    "p": ("rate", "ratio"),
    "rate": ("ratio", "p"),
    "dim": ("axis", "axes"),
    "keepdim": ("keepdims",),
    "num_embeddings": ("size",),
    "embedding_dim": ("size",),
    "use_bias": ("bias",),
    "input": ("x",),
}


def hint(name: str, known: dict[str, str] = FUNCTIONS) -> str:
    """`; write ops.clip(…)`, or nothing."""
    return f"; write {known[name]}" if name in known else ""


def check_words(what: str, function: Callable[..., Any], words: dict[str, Any]) -> None:
    """A sentence for a word that the function does not take."""
    parameters = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    taken = [name for name in parameters if name != "self"]
    for word in words:
        if word in taken:
            continue
        meant = next((each for each in WORDS.get(word, ()) if each in taken), None)
        meant = meant or _core.nearest(word, taken)
        said = f"did you mean '{meant}'? " if meant else ""
        raise error(f"{what} has no argument '{word}': {said}It takes {', '.join(taken)}")


def check_foreign(what: str, function: Callable[..., Any], words: dict[str, Any]) -> None:
    """A sentence for words of other libraries, of a function that takes any word."""
    taken = [name for name in inspect.signature(function).parameters if name != "self"]
    for word in words:
        meant = next((each for each in WORDS.get(word, ()) if each in taken), None)
        if word not in taken and meant is not None and meant not in words:
            others = ", ".join(name for name in taken if name != "options")
            raise error(
                f"{what} has no argument '{word}': did you mean '{meant}'? It takes {others}, and "
                "options"
            )


def with_hints(function: F) -> F:
    """The function, with a hint in the error about an argument that it does not have."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except TypeError as failed:
            inner = failed.__traceback__ and failed.__traceback__.tb_next
            if inner is None:  # the call itself was wrong
                check_words(f"[{function.__name__}]", function, kwargs)
            raise

    return called  # type: ignore[return-value]
