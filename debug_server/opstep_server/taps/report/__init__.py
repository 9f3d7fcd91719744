"""A tap log as one page of plots: read once, in bounded memory, whatever its size."""
