"""Tensor taps: what executors log at chosen ops, and the sinks that it goes to."""
