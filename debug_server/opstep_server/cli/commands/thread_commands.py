"""Commands about threads: select one, run a command for some, list them."""

from __future__ import annotations

from opstep_server.cli.commands.command import Command, Handler
from opstep_server.cli.output import descriptions
from opstep_server.cli.sessions.terminal_session import TerminalSession
from opstep_server.debugger import DebuggerError, Thread


async def thread(session: TerminalSession, args: str) -> None:
    which, _, text = args.removeprefix("apply ").strip().partition(" ")
    if not which:
        await info_threads(session, "")
    elif which == "all":
        await _in_all(session, text.strip())
    elif text.strip():
        handler, rest = await _command(session, text.strip())
        await _in_one(session, _thread(session, which), handler, rest)
    else:
        _look_at(session, _thread(session, which))


def _look_at(session: TerminalSession, thread: Thread) -> None:
    session.select(thread)
    if thread.stopped is not None:
        session.show_stop(thread.stopped)
    else:
        session.screen.line(
            f"{descriptions.thread(thread)} is running: 'thread {thread.id} pause' stops it"
        )


async def _in_all(session: TerminalSession, text: str) -> None:
    if not text:
        raise DebuggerError("write a command for them: 'thread all where'")
    handler, rest = await _command(session, text)
    # A running thread can only pause; a stopped one can do anything else.
    pausing = handler is (await _command(session, "pause"))[0]
    chosen = [each for each in session.debugger.threads if (each.stopped is None) == pausing]
    if not chosen:
        _any(session)
        raise DebuggerError(f"all threads are {'stopped already' if pausing else 'running'}")
    problems = 0
    for each in chosen:
        session.screen.line(f"{descriptions.thread(each)}:", "bold")
        try:
            await _in_one(session, each, handler, rest)
        except DebuggerError as error:
            session.screen.error(str(error))
            problems += 1
        if session.interrupted or session.quitting:
            break
    if problems:
        count = f"{problems} of {len(chosen)} threads"
        raise DebuggerError(f"'{text}' could not be done in {count}")


async def _in_one(session: TerminalSession, thread: Thread, handler: Handler, args: str) -> None:
    """Runs the command for that thread only; the view stays unless something stops."""
    with session.only(thread):
        await handler(session, args)


async def _command(session: TerminalSession, text: str) -> tuple[Handler, str]:
    # Imported here: the table of commands imports this file.
    from opstep_server.cli.input import dispatch

    command, args = await dispatch.meaning(session, text)
    return command.handler, args


def _any(session: TerminalSession) -> list[Thread]:
    threads = session.debugger.threads
    if not threads:
        raise session.none_yet("no thread has run an op")
    return threads


def _thread(session: TerminalSession, number: str) -> Thread:
    threads = _any(session)
    for each in threads:
        if str(each.id) == number:
            return each
    there = ", ".join(str(each.id) for each in threads)
    if number.isdecimal():
        raise DebuggerError(f"there is no thread {number}: there is {there}")
    raise DebuggerError(f"'{number}' is not a thread: write its number ({there}) or 'all'")


async def info_threads(session: TerminalSession, pattern: str) -> None:
    for each in _any(session):
        mark = "*" if session.in_view(each) else " "
        state = "running"
        if each.stopped is not None:
            state = descriptions.stop_line(each.stopped, session.debugger.others_only(each.stopped))
        session.screen.line(f"{mark} {each.id}  {each.name}, process {each.executor.pid}: {state}")


COMMANDS = (
    Command(
        "thread", (), "thread [NUMBER | all] [COMMAND]",
        "look at another thread, or have only that one do something",
        "'thread 2' looks at it; 'info threads' and 'thread' show all, * marks the one in view.\n"
        "'thread 2 stepi' and 'thread 2 continue' let only that thread go on: those that are\n"
        "stopped stay so, where 'stepi' and 'continue' alone let them go on too.\n"
        "'thread 2 pause' stops it at its next op. 'thread 2 print X' looks once.\n"
        "'thread all where' does it for all that are stopped, one after the other.",
        thread, "thread",
    ),
)  # fmt: skip
