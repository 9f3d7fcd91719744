"""Which lines of a Python file have code."""

from __future__ import annotations

from pathlib import Path

from opstep_server.code_lines import lines_of_function, lines_with_code

TEXT = '''\
"""A docstring
of two lines."""
from __future__ import annotations

x = (f(1)
     .g(
         2,
     )
)
# a comment
def h():
    "another docstring"

class C:
    "only a docstring"
if x:
    assert h()
else:
    pass
text = """
not code
"""
'''


def test_lines_with_code(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(TEXT)
    assert lines_with_code(str(path)) == {3, 5, 6, 7, 11, 14, 16, 17, 19, 20}


def test_lines_of_a_function(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("def f():\n    a()\n    def f():\n        b()\n    c()\nf()\n")
    assert {2, 3, 5} <= lines_of_function(str(path), "f", 5) <= {1, 2, 3, 5}
    assert 4 in lines_of_function(str(path), "f.<locals>.f", 4)
    assert {1, 6} <= lines_of_function(str(path), "<module>", 6) <= {0, 1, 6}
    assert lines_of_function(str(path), "g", 5) == set()


def test_it_is_not_known(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    assert lines_with_code(str(path)) is None
    for text in (b"no Python at all", b"x = \0", b"\xff", b"(" * 100_000, b"-" * 100_000 + b"1"):
        path.write_bytes(text)
        assert lines_with_code(str(path)) is None
    path.write_bytes(b"")
    assert lines_with_code(str(path)) == set()
