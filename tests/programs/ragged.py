"""Sequences of different lengths, of one level and of two."""

import numpy as np

import opstep
from opstep import layers

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    words = layers.data("words", shape=[None, 2], lod_level=1)
    texts = layers.data("texts", shape=[None], dtype="int64", lod_level=2)
    many = layers.data("many", shape=[None], lod_level=1)
    doubled = layers.add(words, words)  # @doubled
    pooled = layers.sequence_pool(doubled, "max")  # @pooled
    most = layers.sequence_pool(many, "sum")
    long = layers.sequence_pool(layers.cast(texts, "float32"), "sum")

feed = {
    "words": [np.arange(2 * n, dtype=np.float32).reshape(n, 2) for n in (3, 0, 4)],
    "texts": [[[1, 2], [3]], [[4, 5, 6]]],
    "many": [np.full(n % 3, n, np.float32) for n in range(30)],
}
opstep.Executor().run(main, feed=feed, fetch_list=[pooled, most, long])
