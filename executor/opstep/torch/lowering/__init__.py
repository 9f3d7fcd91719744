"""How ATen ops become ops of opstep. Importing this package fills the table."""

from opstep.torch.lowering import (
    activations,
    convolutions,
    creation,
    elementwise,
    indexing,
    norms,
    products,
    reductions,
    shapes,
)

__all__ = [
    "activations",
    "convolutions",
    "creation",
    "elementwise",
    "indexing",
    "norms",
    "products",
    "reductions",
    "shapes",
]
