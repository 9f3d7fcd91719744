"""Terminal sessions: with a launched script, a running process or a debug server."""
