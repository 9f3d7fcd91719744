"""Where tap records go; one kind of sink a file."""
