"""Training: gradients, machines that go step by step, checkpoints, the memory of loops."""
