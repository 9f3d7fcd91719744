"""Words of pdb and gdb that are not commands here, each with a replacement."""

from __future__ import annotations

_READS = (
    "'watch' stops at ops that write; 'consumers VARIABLE' shows those that read, and 'break "
    "#NUMBER' stops at one of them"
)
_BACKWARDS = "ops do not run backwards: 'inspect VARIABLE' walks back along the data"
_PYTHON = "an expression is evaluated as it is typed, see 'help expressions'"
_PRINT = "write the expression itself, or 'print EXPRESSION'"
_SHELL = "'shell COMMAND' runs it outside of the debugger"
_START = "in a shell, 'opstep debug SCRIPT' starts one and 'opstep attach PID' joins one"

FOREIGN: dict[str, str] = {
    **dict.fromkeys(
        ("jump", "j"),
        "ops run in their order: 'until LINE' goes on to a line, 'set' changes what an op made",
    ),
    **dict.fromkeys(("rwatch", "awatch"), _READS),
    **dict.fromkeys(("interact", "python", "py", "debug"), _PYTHON),
    **dict.fromkeys(("retval", "rv"), "'outputs' shows what the op made"),
    **dict.fromkeys(
        ("reverse-step", "reverse-next", "reverse-continue", "rs", "rn", "rc", "record", "undo"),
        _BACKWARDS,
    ),
    **dict.fromkeys(("call", "output", "printf", "echo"), _PRINT),
    **dict.fromkeys(("cd", "pwd", "make"), _SHELL),
    **dict.fromkeys(("file", "attach", "load"), _START),
    **dict.fromkeys(("disassemble", "disas"), "'list listing' shows the ops, one a line"),
    **dict.fromkeys(("handle", "signal"), "'interrupt' gives the script a Ctrl-C"),
    **dict.fromkeys(("locals", "variables", "vars"), "write 'info locals' or 'info vars'"),
    "stack": "write 'where'",
    "resume": "write 'continue'",
    "stepout": "write 'finish'",
    "define": "'alias NAME COMMAND' names a command, and 'source FILE' runs several",
    "show": "'info' shows the session's state, and 'help' the commands",
    "rbreak": "'break' takes patterns: 'break fc_*'",
    "hbreak": "write 'break'",
    "exceptions": "write 'catch'",
    "tcatch": "write 'catch'",
    "cls": "Ctrl-L clears the screen",
}
