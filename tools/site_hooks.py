"""Hooks of mkdocs.yml: the pages that come from outside docs/, and a check of the finished site.

Links in Markdown files are paths of the repository, so that they work on a code host too. Here
they become links between the site's pages.
"""

from __future__ import annotations

import ast
import logging
import posixpath
import re
from html.parser import HTMLParser
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LOG = logging.getLogger("mkdocs.hooks.site")  # a warning fails `mkdocs build --strict`

TEXTS = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    **{f"ide_plugins/{name}/README.md": f"editors/{name}.md" for name in
       ("vscode", "neovim", "emacs", "helix")},
}  # fmt: skip
# Files that a page links to are shown as they are.
SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("examples/**/*.py", "ide_plugins/emacs/*.el")
    for path in ROOT.glob(pattern)
)
EXAMPLES = "examples/index.md"
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^)#\s]*)(#[^)\s]*)?\)")
_FENCE = re.compile(r"^\s*```")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Lists docs/decisions in the navigation."""
    decisions = [
        f"decisions/{path.name}" for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))
    ]
    decisions.sort(key=lambda name: not name.endswith("README.md"))
    config.nav = _with_decisions(config.nav, decisions)
    return config


def _with_decisions(nav: object, decisions: list[str]) -> object:
    if isinstance(nav, list):
        return [_with_decisions(each, decisions) for each in nav]
    if isinstance(nav, dict):
        return {name: _with_decisions(each, decisions) for name, each in nav.items()}
    return decisions if nav == "decisions" else nav


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages whose texts are outside docs/."""
    pages = {page: (ROOT / source).read_text() for source, page in TEXTS.items()}
    pages |= {page_of(source): _listing(source) for source in SOURCES}
    pages[EXAMPLES] = _examples()
    for page, text in pages.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    sources = {page: source for source, page in TEXTS.items()}
    name = page.file.src_uri
    return with_site_links(markdown, sources.get(name, f"docs/{name}"), name)


def page_of(source: str) -> str:
    """The site's page or file for a path of the repository."""
    if source in TEXTS:
        return TEXTS[source]
    if source in SOURCES:
        return source.replace("ide_plugins/", "editors/") + ".md"
    return source.removeprefix("docs/")


def with_site_links(text: str, source: str, page: str) -> str:
    """`text` of the file `source` with links that work on the site's `page`."""
    lines, inside = [], False
    for line in text.split("\n"):
        inside ^= bool(_FENCE.match(line))
        lines.append(line if inside else _LINK.sub(lambda m: _link(m, source, page), line))
    return "\n".join(lines)


def _link(match: re.Match[str], source: str, page: str) -> str:
    text, target, anchor = match[1], match[2], match[3] or ""
    if not target or ":" in target or source == f"docs/{EXAMPLES}":
        return match[0]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if path == "examples" or (path.startswith("examples/") and (ROOT / path).is_dir()):
        anchor = f"#{posixpath.basename(path)}" if "/" in path else ""
        path = f"docs/{EXAMPLES}"
    to = posixpath.relpath(page_of(path), posixpath.dirname(page) or ".")
    return f"{text}({to}{anchor})"


def _listing(source: str) -> str:
    language = "python" if source.endswith(".py") else "lisp"
    text = (ROOT / source).read_text()
    return f"# {posixpath.basename(source)}\n\n`{source}`\n\n```{language}\n{text}```\n"


def _examples() -> str:
    """A list of the examples, folder by folder, with the first sentence of each."""
    lines, folder = ["# Examples\n"], "examples"
    for source in sorted(SOURCES, key=lambda name: (name.count("/"), name)):
        if not source.startswith("examples/"):
            continue
        if posixpath.dirname(source) != folder:
            folder = posixpath.dirname(source)
            lines.append(f"\n## {posixpath.basename(folder)}\n")
        doc = ast.get_docstring(ast.parse((ROOT / source).read_text())) or ""
        name = source.removeprefix("examples/")
        about = " ".join(doc.partition("\n\n")[0].split())
        lines.append(f"- [{name}]({name}.md): {about}")
    return "\n".join(lines) + "\n"


class _Outside(HTMLParser):
    """Finds references of a page to other hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        fetched = [values.get("src"), values.get("href") if tag == "link" else None]
        self.found += [each for each in fetched if each and re.match(r"(https?:)?//", each)]


def on_post_build(config: MkDocsConfig) -> None:
    """Fails when a page fetches something from another host: the site works without a network."""
    site = Path(config.site_dir)
    for path in sorted(site.rglob("*.html")):
        outside = _Outside()
        text = path.read_text()
        outside.feed(text)
        if 'class="mermaid"' in text:
            outside.found.append("mermaid, which the theme fetches")
        for each in outside.found:
            LOG.warning("%s fetches %s", path.relative_to(site), each)
    for path in sorted(site.rglob("*.css")):
        for each in re.findall(r"url\([\"']?((?:https?:)?//[^)\"']*)", path.read_text()):
            LOG.warning("%s fetches %s", path.relative_to(site), each)
