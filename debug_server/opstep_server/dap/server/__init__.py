"""The adapter's ends: standard streams, a socket, and the relay to `opstep serve`."""
