"""The debug server: one `Debugger` over the executors' gRPC streams, with the faces CLI and DAP."""


def version() -> str:
    # Imported here: the import takes longer than a short command.
    from importlib import metadata

    try:
        return metadata.version("opstep-server")
    except metadata.PackageNotFoundError:
        return "0+uninstalled"
