"""The debug server: one `Debugger` over the executors' gRPC streams, and its faces CLI and DAP."""

from importlib import metadata


def version() -> str:
    try:
        return metadata.version("opstep")
    except metadata.PackageNotFoundError:
        return "0+uninstalled"
