"""The command `opstep`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence

import opstep_server
from opstep_server.cli import exits
from opstep_server.debugger import DebuggerError

EPILOG = """\
The script writes to the same output as the debugger. It reads nothing from its input, except with
--batch when the input is a file or a pipe: that is then the script's.

exit code of a batch and of commands from a pipe, the first that applies:
"""

PS_EPILOG = """\
ATTACHED is yes while somebody debugs the process, and server while it is connected to a debug
server that nobody is attached to.
"""

SERVE_EPILOG = """\
examples:
  opstep serve
  opstep serve --listen 127.0.0.1:7001 --dap 127.0.0.1:7002
  opstep serve --listen 0.0.0.0:7001 --token-file token --tls-cert cert.pem --tls-key key.pem

TCP wants a token, and beyond this machine TLS. An executor has them by OPSTEP_TOKEN_FILE and
OPSTEP_TLS_CA, an editor by tokenFile and tlsCa in its attach configuration.
"""

# Commands of the executor's own package, which this one must not import.
EXECUTOR_COMMANDS = {
    "run": "run a script, a saved model or a saved program",
    "show": "print a saved model or program as a listing or as a graph",
}


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in EXECUTOR_COMMANDS:
        return _executor(words)
    arguments = parser()
    args = arguments.parse_args(words)
    if args.command in ("dap", "serve"):
        return _adapter(args)
    if args.command == "ps":
        from opstep_server.cli.ps import ps

        return ps()
    if args.command in ("debug", "attach"):
        return _debug(args)
    arguments.print_help()
    return 2


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="opstep",
        description="Runs, shows and debugs compiled neural-network graphs.",
    )
    version = f"opstep {opstep_server.version()}"
    top.add_argument("--version", action="version", version=version)
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for name, what in EXECUTOR_COMMANDS.items():
        commands.add_parser(name, help=what)
    debug = commands.add_parser(
        "debug",
        help="run a script under the debugger, in this terminal",
        description="Run a script under the debugger, in this terminal; 'help' lists its commands.",
        epilog=EPILOG + exits.help_text(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_commands(debug)
    debug.add_argument("--python", metavar="PATH", help="the interpreter for the script")
    debug.add_argument("script", help="the Python script")
    rest = debug.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    rest.required = False  # Python 3.11 would name it among what is missing.
    attach = commands.add_parser(
        "attach",
        help="debug a running process, in this terminal",
        description="Debug a running process of yours, in this terminal; leaving lets it go on.",
    )
    _add_commands(attach)
    attach.add_argument(
        "pid", type=int, metavar="PID", help="the process, one that 'opstep ps' lists"
    )
    commands.add_parser(
        "ps",
        help="list the processes that can be attached to",
        description="List your processes that have an executor, and can be attached to.",
        epilog=PS_EPILOG,
    )
    dap = commands.add_parser(
        "dap",
        help="serve the Debug Adapter Protocol to an editor",
        description="Serve the Debug Adapter Protocol to one editor on stdin and stdout.",
    )
    dap.add_argument(
        "--listen", metavar="ADDRESS",
        help="serve client after client at unix:/path or host:port instead",
    )  # fmt: skip
    _add_access(dap)
    serve = commands.add_parser(
        "serve",
        help="a debug server for many executors and many clients",
        description="A debug server: executors dial it, clients attach to it, as they come and go.",
        epilog=SERVE_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument(
        "--listen", metavar="ADDRESS",
        help="where executors dial: unix:/path or host:port (a socket that only you can use)",
    )  # fmt: skip
    serve.add_argument(
        "--dap", metavar="ADDRESS",
        help="where clients connect: unix:/path or host:port (a socket that only you can use)",
    )  # fmt: skip
    _add_access(serve)
    return top


def _add_commands(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tui", action="store_true", help="begin with the full screen")
    parser.add_argument("--batch", action="store_true", help="run the given commands, then end")
    parser.add_argument(
        "-ex", action="append", default=[], metavar="CMD", dest="commands", type=_one,
        help="a command to run first; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "-x", action="append", metavar="FILE", dest="commands", type=_from_file,
        help="a file with commands to run first, one a line, # begins a comment",
    )  # fmt: skip


def _add_access(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--token-file", metavar="FILE",
        help="a file that only you can read, with the token that TCP wants; made if not given",
    )  # fmt: skip
    parser.add_argument("--tls-cert", metavar="FILE", help="the server's certificate, in PEM")
    parser.add_argument("--tls-key", metavar="FILE", help="its key")


def _adapter(args: argparse.Namespace) -> int:
    # Only here: the terminal does not need the adapter, nor the adapter the terminal.
    from opstep_server.dap import main as stdio, serving

    access = args.token_file, args.tls_cert, args.tls_key
    try:
        if args.command == "serve":
            asyncio.run(serving.serve(args.listen, args.dap, *access))
        elif args.listen:
            asyncio.run(serving.dap(args.listen, *access))
        else:
            return stdio.main()
    except DebuggerError as error:
        print(f"opstep: {error}", file=sys.stderr)
        return 1
    return 0


def _executor(words: list[str]) -> int:
    """This process becomes the executor's, so that signals and the exit code are its own."""
    # -P: a file beside the user must not be taken for a module of ours.
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    command = [sys.executable, *safe, "-m", "opstep", *words]
    try:
        os.execv(command[0], command)
    except OSError as error:
        print(f"opstep: cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 1


def _one(text: str) -> list[str]:
    return [text.strip()]


def _from_file(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"cannot read {path}: {error}") from error
    return [line for line in lines if line and not line.startswith("#")]


def _debug(args: argparse.Namespace) -> int:
    commands = [command for group in args.commands for command in group]
    if args.command == "debug" and not os.path.isfile(args.script):
        print(f"opstep: there is no script {args.script}", file=sys.stderr)
        return exits.WRONG
    try:
        return asyncio.run(_session(args, commands))
    except DebuggerError as error:
        print(f"opstep: {error}", file=sys.stderr)
        return exits.WRONG
    except (KeyboardInterrupt, asyncio.CancelledError):
        return exits.by_signal(signal.SIGINT)
    except BrokenPipeError:
        # Nobody reads what we say (`| head`); Python would complain of it again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return exits.by_signal(signal.SIGPIPE)


async def _session(args: argparse.Namespace, commands: list[str]) -> int:
    from opstep_server.cli.attached import AttachedSession
    from opstep_server.cli.screen import Screen
    from opstep_server.cli.session import Session
    from opstep_server.cli.shell import Shell
    from opstep_server.debugger import Debugger, LaunchTarget

    terminal = sys.stdout.isatty() and sys.stdin.isatty() and not args.batch
    screen = Screen(colour=terminal)
    session: Session
    if args.command == "attach":
        session = AttachedSession(Debugger(), args.pid, screen, batch=args.batch)
    else:
        target = LaunchTarget(
            args.script,
            tuple(args.args),
            python=args.python,
            output="terminal" if terminal else "inherit",
            stdin="inherit" if args.batch and not sys.stdin.isatty() else "nothing",
        )
        session = Session(Debugger(), target, screen, batch=args.batch)
    shell = Shell(session)
    ending = _end_on_signals()
    try:
        if isinstance(session, AttachedSession):
            await session.attach()
        elif terminal and not args.tui:
            session.screen.line(
                f"opstep {opstep_server.version()}: type help for the commands, run to begin"
            )
        if terminal:
            session.full_screen = args.tui
            await shell.interactive(commands)
        else:
            await shell.batch(commands)
            if not args.batch and not session.quitting:
                await shell.piped()
    finally:
        await session.close()
        if ending:
            # Not by returning: that would wait for a thread that may still read our input.
            with contextlib.suppress(OSError):
                sys.stdout.flush()
            os._exit(exits.by_signal(ending[0]))
    return 0 if terminal else exits.code(shell.failed, session.fault, session.script_code)


def _end_on_signals() -> list[int]:
    """Lets SIGTERM and SIGHUP cancel this task; the result holds the signal that did."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    came: list[int] = []

    def end(number: int) -> None:
        if not came and task is not None:
            came.append(number)
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        # One that our parent had us ignore (nohup) stays ignored.
        if signal.getsignal(number) is signal.SIG_DFL:
            loop.add_signal_handler(number, end, int(number))
    return came


if __name__ == "__main__":
    sys.exit(main())
