"""Data sets as readers: small real ones that come with opstep, and synthetic ones.

    train, test = datasets.digits("train", batch=32, shuffle=0), datasets.digits("test", batch=360)

Minibatches have `x` and `label` (a class, int64[rows, 1]) or `y` (numbers). Random data
come from a seed: equal arguments give equal data.
"""

from opstep.datasets.shipped import digits, iris
from opstep.datasets.synthetic import images, regression, sequences

__all__ = ["digits", "images", "iris", "regression", "sequences"]
