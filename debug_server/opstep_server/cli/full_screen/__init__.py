"""The full-screen mode: another face of the same shell, session and commands."""

from opstep_server.cli.full_screen.application import FullScreen

__all__ = ["FullScreen"]
