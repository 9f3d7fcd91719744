"""The subcommands of `opstep`, each called with its parsed arguments."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import itertools
import os
import signal
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import opstep_server
from opstep_server import malloc_tuning
from opstep_server.cli.app import exit_codes, saved_programs, standard_streams
from opstep_server.cli.app.command_line import EXECUTOR_COMMANDS, parse, problem
from opstep_server.cli.output import characters
from opstep_server.debugger import Debugger, DebuggerError, LaunchTarget

if TYPE_CHECKING:
    from opstep_server.cli.output.screen import Screen
    from opstep_server.cli.sessions.terminal_session import TerminalSession


def run_subcommand(words: list[str]) -> int:
    standard_streams.open_missing()
    if words and words[0] in EXECUTOR_COMMANDS:
        return _wrong_taps(words) or _executor(words)
    if words[:2] in (["log", "view"], ["log", "report"]):
        from opstep_server.cli.log import file_commands

        return file_commands.main(words)
    if words[:1] == ["log"]:
        from opstep_server.cli.log import log_command

        _step_back()
        return log_command.main(words[1:])
    args = parse(words)
    if args.command == "collect":
        from opstep_server.cli.log import collect_command

        _step_back()
        return collect_command.main(args)
    if args.command == "ps":
        from opstep_server.cli.app.process_list import ps

        return ps(args.json)
    malloc_tuning.keep_freed()
    return _adapter(args) if args.command in ("dap", "serve") else _debug(args)


def _step_back() -> None:
    """Lowers our priority, so that on a busy machine the logged process comes first."""
    with contextlib.suppress(OSError):
        os.nice(10)


def _adapter(args: argparse.Namespace) -> int:
    # Imported here: the terminal does not need the adapter, nor the adapter the terminal.
    from opstep_server.dap.server import server_commands, stdio

    access = args.token_file, args.tls_cert, args.tls_key, args.save_folder
    try:
        if args.save_folder and not os.path.isdir(args.save_folder):
            raise DebuggerError(f"there is no folder {args.save_folder} to save tensors in")
        if args.command == "serve":
            asyncio.run(server_commands.serve(args.listen, args.dap, *access))
        elif args.listen:
            asyncio.run(server_commands.dap(args.listen, *access))
        else:
            return stdio.main()
    except DebuggerError as error:
        print(f"opstep: {error}", file=sys.stderr)
        return 1
    return 0


def _wrong_taps(words: list[str]) -> int:
    """Reports an error in the file of taps before anything runs; 0 when there is none."""
    files = [after for word, after in itertools.pairwise(words) if word == "--taps"]
    files += [word.removeprefix("--taps=") for word in words if word.startswith("--taps=")]
    # A script may have an option with the same name.
    before = next((i for i, word in enumerate(words) if word.endswith(".py")), len(words))
    if not files or not any(word.startswith("--taps") for word in words[:before]):
        return 0
    from opstep_server.taps import config

    try:
        config.read(files[0])
    except DebuggerError as error:
        print(f"opstep: {error}", file=sys.stderr)
        return exit_codes.WRONG
    return 0


def _executor(words: list[str]) -> int:
    """Replaces this process by the executor, which then has its signals and exit code."""
    if sentence := _executor_missing(f"'opstep {words[0]}'"):
        print(f"opstep: {sentence}", file=sys.stderr)
        return exit_codes.WRONG
    # -P: a file in the current folder must not be imported as one of our modules.
    safe = ["-P"] if sys.version_info >= (3, 11) else []
    command = [sys.executable, *safe, "-m", "opstep", *words]
    try:
        os.execv(command[0], command)
    except OSError as error:
        print(f"opstep: cannot start {command[0]}: {error.strerror}", file=sys.stderr)
        return 1


def _executor_missing(what: str) -> str:
    """What to say when only the debug server is installed; "" when the executor is there too."""
    if importlib.util.find_spec("opstep") is not None:
        return ""
    return (
        f"{what} needs the executor, and {sys.executable} has only the debug server: "
        "install the package opstep there"
    )


# ---- the terminal debugger -----------------------------------------------------------------------


def _debug(args: argparse.Namespace) -> int:
    characters.replace_unknown()
    sentence = problem(args)
    if not sentence and args.command == "debug" and args.saved and not args.python:
        sentence = _executor_missing("a saved program")
    if sentence:
        print(f"opstep: {sentence}", file=sys.stderr)
        return exit_codes.WRONG
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        # From here on there is a session to close.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return asyncio.run(_run(args))
    except DebuggerError as error:
        print(f"opstep: {error}", file=sys.stderr)
        return exit_codes.WRONG
    except (KeyboardInterrupt, asyncio.CancelledError):
        return exit_codes.by_signal(signal.SIGINT)
    except BrokenPipeError:
        # Nobody reads our output (`| head`); Python would complain again at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return exit_codes.by_signal(signal.SIGPIPE)


async def _run(args: argparse.Namespace) -> int:
    from opstep_server.cli.commands.layout_commands import check_terminal
    from opstep_server.cli.input.shell import Shell
    from opstep_server.cli.output.screen import Screen

    terminal = sys.stdout.isatty() and sys.stdin.isatty() and not args.batch
    if args.tui:
        if not terminal:
            raise DebuggerError("--tui needs a terminal, and no --batch")
        check_terminal()
    session = _session(args, Screen(colour=terminal), terminal)
    shell = Shell(session)
    commands = [command for group in args.commands for command in group]
    ending = _end_on_signals()
    try:
        if terminal and args.command == "debug":
            session.screen.line(
                f"opstep {opstep_server.version()}: type help for the commands, run to begin"
            )
        await session.begin()
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
            # Not by returning, which would wait for a thread that may still read our input.
            with contextlib.suppress(OSError):
                sys.stdout.flush()
            os._exit(exit_codes.by_signal(ending[0]))
    return 0 if terminal else exit_codes.code(shell.failed, session.fault, session.script_code)


def _session(args: argparse.Namespace, screen: Screen, terminal: bool) -> TerminalSession:
    from opstep_server.cli.sessions import attached_session, launched_session, server_sessions

    debugger = Debugger()
    if args.command == "attach":
        if args.place and args.place.isdecimal():
            return attached_session.ProcessSession(debugger, int(args.place), screen, args.batch)
        keys = server_sessions.KeyFiles(args.token_file, args.tls_cert, args.tls_key, args.tls_ca)
        kind = server_sessions.ListeningSession if args.listen else server_sessions.GuestSession
        return kind(debugger, args.listen or args.place, keys, screen, args.batch)
    target = (
        saved_programs.target(args) if args.saved else LaunchTarget(args.file, tuple(args.args))
    )
    target = replace(
        target,
        python=args.python,
        output="terminal" if terminal else "inherit",
        stdin="inherit" if args.batch and not sys.stdin.isatty() else "nothing",
    )
    return launched_session.LaunchedSession(debugger, target, screen, args.batch, file=args.file)


def _end_on_signals() -> list[int]:
    """Lets SIGTERM and SIGHUP cancel this task; the result holds that signal."""
    task = asyncio.current_task()
    loop = asyncio.get_running_loop()
    came: list[int] = []

    def end(number: int) -> None:
        if not came and task is not None:
            came.append(number)
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        # A signal that our parent made us ignore (nohup) stays ignored.
        if signal.getsignal(number) is signal.SIG_DFL:
            loop.add_signal_handler(number, end, int(number))
    return came
