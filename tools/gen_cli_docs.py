"""Writes docs/cli.md, the reference of the command `opstep`, from its argument parsers.

`python tools/gen_cli_docs.py` writes it; --check only tests whether it is up to date.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from opstep.cli.main import parser as executor_parser
from opstep_server.cli.app.command_line import EXECUTOR_COMMANDS, parser as debugger_parser
from opstep_server.cli.log import file_commands

TARGET = Path(__file__).parents[1] / "docs" / "cli.md"
HEAD = """# The command `opstep`

Made by `tools/gen_cli_docs.py` from the commands' own arguments: do not edit. Commands at the
debugger's prompt are in [commands.md](commands.md).
"""


def generate() -> str:
    """The page as Markdown."""
    return HEAD + "".join(_section(name, command) for name, command in _commands().items())


def _commands() -> dict[str, argparse.ArgumentParser]:
    ours = _choices(debugger_parser())
    return {
        **_choices(executor_parser()),
        **{name: command for name, command in ours.items() if name not in EXECUTOR_COMMANDS},
        **file_commands.parsers(),
    }


def _choices(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    (choices,) = (
        action.choices
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return dict(choices)


def _section(name: str, command: argparse.ArgumentParser) -> str:
    lines = ["", f"## opstep {name}", "", str(command.description), ""]
    lines += ["| argument | meaning |", "|---|---|"]
    for group in command._action_groups:
        if group.title not in ("positional arguments", "options"):
            lines.append(f"| *{group.title}* | |")
        for action in group._group_actions:
            if action.help == argparse.SUPPRESS:
                continue
            metavar = action.metavar or ("" if action.option_strings else action.dest.upper())
            words = " ".join([*action.option_strings[-1:], str(metavar)]).strip()
            bars = words.replace("|", r"\|")  # Otherwise a new column would begin.
            lines.append(f"| `{bars}` | {action.help} |")
    about, _, rest = (command.epilog or "").partition("examples:\n")
    examples, _, codes = rest.partition("\n\n")
    about, _, table = about.partition("\n\n")
    if about.strip():
        lines += ["", about.strip()]
    if table.strip():
        head, *rows = table.strip().splitlines()
        lines += ["", head[0].upper() + head[1:], "", "```", *(row[2:] for row in rows), "```"]
    if examples:
        lines += ["", "```", *(line[2:] for line in examples.splitlines()), "```"]
    if codes:
        lines += ["", codes[0].upper() + codes[1:].strip().removesuffix(".") + "."]
    return "\n".join(lines) + "\n"


def main() -> int:
    page = generate()
    if "--check" in sys.argv[1:]:
        if TARGET.is_file() and TARGET.read_text() == page:
            return 0
        print(f"{TARGET.name} is out of date: run .venv/bin/python tools/gen_cli_docs.py")
        return 1
    TARGET.write_text(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
