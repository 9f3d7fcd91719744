"""The debug server: one `Debugger` over the executors' gRPC streams, with the faces CLI and DAP."""


def version() -> str:
    # Only here: it takes longer than all that a short command does.
    from importlib import metadata

    try:
        return metadata.version("opstep-server")
    except metadata.PackageNotFoundError:
        return "0+uninstalled"
