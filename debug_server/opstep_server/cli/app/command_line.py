"""The command line of `opstep`: its arguments and their help."""

from __future__ import annotations

import argparse
import os
from typing import NoReturn

import opstep_server
from opstep_server.cli.app import exit_codes, saved_programs
from opstep_server.cli.log import log_options

DEBUG_EPILOG = f"""\
FILE writes to the same output as the debugger. It reads nothing from its input, except with
--batch when the input is a file or a pipe: that is then the script's. Lines of log points are told
before the stop or the end that they led to, and before what it prints when its run is over.

exit code of a batch and of commands from a pipe, the first that applies:
{exit_codes.help_text()}

examples:
  opstep debug train.py --epochs 3
  opstep debug --batch -ex "catch nan" -ex run train.py
  opstep debug digits_model --feed x=images.npy
  opstep debug main.opstep --startup startup.opstep --random --batch-size 32 --repeat 50
"""

ATTACH_EPILOG = """\
With ADDRESS the terminal shares the processes of an 'opstep serve' with its other clients; each has
breakpoints and catches of its own. With --listen the terminal is the debug server: processes that
were started with OPSTEP_SERVER=ADDRESS dial it. Either way they come and go, and each is a thread.
TCP needs a token, and from other machines TLS; a process has them by OPSTEP_TOKEN_FILE and
OPSTEP_TLS_CA. Exit codes are those of 'opstep debug'.

examples:
  opstep attach 4711
  opstep attach unix:/run/user/1000/opstep/server
  opstep attach --listen unix:/tmp/mine
  opstep attach --listen 0.0.0.0:7001 --token-file token --tls-cert cert.pem --tls-key key.pem
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

TCP needs a token, and from other machines TLS. An executor has them by OPSTEP_TOKEN_FILE and
OPSTEP_TLS_CA, an editor by tokenFile and tlsCa in its attach configuration.
"""

# Commands of the executor's package, which this one must not import.
EXECUTOR_COMMANDS = {
    "run": "run a script, a saved model or a saved program",
    "show": "print a saved model or program as a listing or as a graph",
    "records": "describe, verify or make a record file",
}

_DEBUG_USAGE = "opstep debug [options] FILE [args of a script]"
_RAW = argparse.RawDescriptionHelpFormatter


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="opstep",
        description="Runs, shows and debugs compiled neural-network graphs.",
    )
    top.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")
    for name, what in EXECUTOR_COMMANDS.items():
        commands.add_parser(name, help=what)
    debug = commands.add_parser(
        "debug",
        help="run a script, a saved model or a saved program under the debugger",
        description="Run a script, a saved model or a saved program under the debugger; 'help' at "
        "its prompt\nlists its commands.",
        usage=_DEBUG_USAGE,
        epilog=DEBUG_EPILOG,
        formatter_class=_RAW,
    )
    debug.add_argument(
        "file", metavar="FILE",
        help="a Python script, a directory that save_model wrote, or what Program.save wrote",
    )  # fmt: skip
    rest = debug.add_argument(
        "args", metavar="ARGS", nargs=argparse.REMAINDER, help="a script's arguments"
    )
    rest.required = False  # Python 3.11 would list it as missing.
    _add_debug(debug)
    attach = commands.add_parser(
        "attach",
        help="debug running processes, in this terminal",
        description="Debug running processes, in this terminal; leaving lets them go on.",
        usage="opstep attach [options] PID|ADDRESS\n"
        "       opstep attach [options] --listen ADDRESS",
        epilog=ATTACH_EPILOG,
        formatter_class=_RAW,
    )
    attach.add_argument(
        "place", metavar="PID|ADDRESS", nargs="?",
        help="a process of yours that 'opstep ps' lists, or where an 'opstep serve' has executors "
        "dial it: unix:/path or host:port",
    )  # fmt: skip
    attach.add_argument(
        "--listen", metavar="ADDRESS",
        help="wait for processes that dial unix:/path or host:port",
    )  # fmt: skip
    _add_access(attach)
    attach.add_argument(
        "--tls-ca", metavar="FILE", help="root certificates for ADDRESS, in PEM; they turn TLS on"
    )
    _add_commands(attach)
    ps = commands.add_parser(
        "ps",
        help="list the processes that can be attached to",
        description="List your processes that have an executor, and can be attached to.",
        epilog=PS_EPILOG,
    )
    ps.add_argument("--json", action="store_true", help="as JSON: a list of objects")
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
    _add_save_folder(dap)
    serve = commands.add_parser(
        "serve",
        help="a debug server for many executors and many clients",
        description="A debug server: executors dial it, clients attach to it, as they come and go.",
        epilog=SERVE_EPILOG,
        formatter_class=_RAW,
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
    _add_save_folder(serve)
    log_options.add_log(commands)
    _add_access(log_options.add_collect(commands))
    return top


class _Version(argparse.Action):
    """Shows the version, which is looked up only on request."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"opstep {opstep_server.version()}")
        parser.exit()


def parse(words: list[str]) -> argparse.Namespace:
    """Parses the arguments; ends the process with a sentence when they are wrong."""
    top = parser()
    args = top.parse_args(words)
    if args.command is None:
        top.print_help()
        top.exit(exit_codes.WRONG)
    if args.command == "debug":
        args.saved = saved_programs.is_saved(args.file)
        if args.saved:
            # A program takes no arguments: those after it are for us too.
            options = argparse.ArgumentParser("opstep debug", usage=_DEBUG_USAGE, add_help=False)
            _add_debug(options)
            args = options.parse_args(args.args, args)
    return args


def problem(args: argparse.Namespace) -> str:
    """One sentence on unusable arguments; "" when all are fine."""
    if args.command == "attach":
        if args.place is not None and args.listen is not None:
            return "give a process's id, a server's address or --listen ADDRESS, not two of them"
        if args.place is None and args.listen is None:
            return "attach needs a process id, which 'opstep ps' shows, or an address"
        return ""
    if args.saved:
        return saved_programs.problem(args)
    if not os.path.isfile(args.file):
        return f"there is no script, model or program {args.file}"
    if said := saved_programs.given(args):
        option = said[0].partition("=")[0].replace("--batch", "--batch-size")
        return f"{option} is for a saved program, and {args.file} is a script"
    return ""


def _add_debug(parser: argparse.ArgumentParser) -> None:
    _add_commands(parser)
    parser.add_argument("--python", metavar="PATH", help="the interpreter that runs FILE")
    saved_programs.add_options(parser)


def _add_commands(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tui", action="store_true", help="begin with the full screen")
    parser.add_argument(
        "--batch", action="store_true",
        help="run the given commands, then end; after a fault, show the inputs of its op",
    )  # fmt: skip
    parser.add_argument(
        "-ex", action="append", default=[], metavar="CMD", dest="commands", type=_one,
        help="a command to run first; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "-x", action="append", metavar="FILE", dest="commands", type=_from_file,
        help="a file with commands to run first, one a line, # begins a comment",
    )  # fmt: skip


def _add_save_folder(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--save-folder", metavar="DIR",
        help="the folder in which TCP clients may write tensors; without it they get the "
        "data only",
    )  # fmt: skip


def _add_access(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--token-file", metavar="FILE",
        help="a file that only you can read, with the token for TCP; made if not given",
    )  # fmt: skip
    parser.add_argument("--tls-cert", metavar="FILE", help="the server's certificate, in PEM")
    parser.add_argument("--tls-key", metavar="FILE", help="its key")


def _one(text: str) -> list[str]:
    return [text.strip()]


def _from_file(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise argparse.ArgumentTypeError(f"cannot read {path}: {error}") from error
    return [line for line in lines if line and not line.startswith("#")]
