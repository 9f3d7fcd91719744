"""tools/site_hooks.py: links of the repository become links of the site; pages fetch nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")  # make docs installs it


@pytest.fixture
def hooks(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(root / "tools"))
    import site_hooks

    yield site_hooks
    del sys.modules["site_hooks"]


@pytest.mark.parametrize(
    ("source", "page", "text", "expected"),
    [
        ("README.md", "index.md", "[a](docs/ops.md#abs)", "[a](ops.md#abs)"),
        ("README.md", "index.md", "![a [b]](docs/vscode.png)", "![a [b]](vscode.png)"),
        ("README.md", "index.md", "[a](examples/)", "[a](examples/index.md)"),
        ("docs/speed.md", "speed.md", "[a](../README.md)", "[a](index.md)"),
        ("docs/x.md", "x.md", "[a](../examples/gan.py)", "[a](examples/gan.py.md)"),
        ("docs/x.md", "x.md", "[a](../examples/both_modes)", "[a](examples/index.md#both_modes)"),
        ("docs/decisions/1.md", "decisions/1.md", "[a](../ops.md)", "[a](../ops.md)"),
        (
            "ide_plugins/vscode/README.md",
            "editors/vscode.md",
            "[a](../../docs/dap.md)",
            "[a](../dap.md)",
        ),
        ("docs/x.md", "x.md", "[a](https://x.org/y.md)", "[a](https://x.org/y.md)"),
        ("docs/x.md", "x.md", "```\n[a](../README.md)\n```", "```\n[a](../README.md)\n```"),
    ],
)
def test_links(hooks, source: str, page: str, text: str, expected: str) -> None:
    assert hooks.with_site_links(text, source, page) == expected


def test_what_a_page_would_fetch_is_found(hooks) -> None:
    page = hooks._Outside()
    page.feed(
        '<link rel="stylesheet" href="https://a.org/x.css"><script src="//b.org/y.js"></script>'
        '<img src="pictures/z.png"><a href="https://c.org">a link is fine</a>'
    )
    assert page.found == ["https://a.org/x.css", "//b.org/y.js"]
