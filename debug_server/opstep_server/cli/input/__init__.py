"""Typed lines: where they come from, what completes them and what they mean."""
