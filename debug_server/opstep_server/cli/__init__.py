"""The debugger in the terminal."""
