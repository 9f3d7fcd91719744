"""Handlers of the client's requests, by theme."""
