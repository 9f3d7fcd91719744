"""The terminal's face of the debugger."""
