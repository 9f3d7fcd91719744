"""Typed lines: their input, completion and meaning."""
