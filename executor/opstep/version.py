"""The version; a test compares it with the one of the installed package."""

__version__ = "0.1.0"
