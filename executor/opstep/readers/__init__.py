"""Readers: minibatches for a training loop, one call after the other.

    batch, end = reader()

`batch` is a dict that can be fed; `end` is True with the last minibatch of a pass over the data,
and the next call begins the next pass. `for batch in reader` goes through one pass. An endless
reader never says that it ended.

`records` and the other functions that read files give pipelines, which the executor runs by itself
(see `opstep.readers.pipelines`). Both kinds have `iterate`, the training loop as an op.
"""

from opstep.readers.pipelines import csv as csv, images as images, npy as npy, records as records
from opstep.readers.reader import (
    Batch as Batch,
    Reader as Reader,
    chain as chain,
    from_arrays as from_arrays,
    from_generator as from_generator,
    from_steps as from_steps,
    join as join,
)
