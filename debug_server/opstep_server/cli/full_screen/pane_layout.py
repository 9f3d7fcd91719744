"""The layout of the panes: side by side in a wide terminal, stacked in a narrow one."""

from __future__ import annotations

from collections.abc import Callable

from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.layout import (
    AnyContainer,
    BufferControl,
    CompletionsMenu,
    ConditionalContainer,
    Dimension,
    DynamicContainer,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    VSplit,
    Window,
)
from prompt_toolkit.layout.processors import AppendAutoSuggestion, BeforeInput
from prompt_toolkit.widgets import SearchToolbar

from opstep_server.cli.full_screen.pane_contents import PaneContents
from opstep_server.cli.full_screen.panes import Pane

# From this many columns on, tensors are beside the code.
_WIDE = 120
# With fewer rows these panes have no room.
_ROWS = {"listing": 20, "tensors": 14, "source": 8}
# How they share the rows.
_WEIGHTS = {"source": 4, "listing": 3, "tensors": 3, "console": 4}
KEYS = (
    ("F5", "continue"), ("F10", "next"), ("F11", "step"), ("⇧F11", "finish"), ("F9", "break"),
    ("^C", "pause"), ("F8", "next op"), ("F7", "into op"), ("F6", "pane"),
    ("PgUp/Dn", "scroll"), ("Tab", "complete"), ("^X A", "lines"),
)  # fmt: skip

Text = Callable[[], StyleAndTextTuples]


class Sizes:
    """The exact number of rows of each pane with its title, so that no search is needed."""

    def __init__(self, shown: set[str]) -> None:
        # The panes to show.
        self._shown = shown

    def has(self, name: str) -> bool:
        return name in self._shown and get_app().output.get_size().rows >= _ROWS[name]

    @property
    def wide(self) -> bool:
        code = self.has("source") or self.has("listing")
        return code and self.has("tensors") and get_app().output.get_size().columns >= _WIDE

    @property
    def code_columns(self) -> int:
        return get_app().output.get_size().columns * 3 // 5

    @property
    def tensor_columns(self) -> int:
        return get_app().output.get_size().columns - self.code_columns - 1

    def rows(self, name: str) -> int:
        bars = 2
        all_rows = max(get_app().output.get_size().rows - bars, 1)
        stacked = [each for each in _ROWS if self.has(each)]
        if self.wide:
            above = all_rows * 3 // 5
            if name == "tensors":
                return above
            all_rows = above
            stacked = [each for each in stacked if each != "tensors"]
        else:
            stacked.append("console")
        # The last takes what is left over.
        weight = sum(_WEIGHTS[each] for each in stacked)
        shares = {each: all_rows * _WEIGHTS[each] // weight for each in stacked}
        rest = all_rows - sum(shares.values())
        return shares[name] + (rest if name == stacked[0] else 0)


def layout(
    view: PaneContents, shown: set[str], title: Callable[[str], StyleAndTextTuples], buffer: Buffer,
    prompt: Text, status: Text,
) -> Layout:  # fmt: skip
    """`shown` are the panes to show; `title` makes the line above each."""
    sizes = Sizes(shown)

    def pane(name: str, content: Pane) -> AnyContainer:
        return ConditionalContainer(
            HSplit(
                [_title(name, title), content],
                height=lambda: Dimension.exact(sizes.rows(name)),
            ),
            Condition(lambda: sizes.has(name)),
        )

    source = pane("source", view.source)
    listing = pane("listing", view.listing)
    tensors = pane("tensors", view.tensors)
    search = SearchToolbar()
    line = Window(
        BufferControl(
            buffer,
            [BeforeInput(prompt), AppendAutoSuggestion()],
            search_buffer_control=search.control,
            preview_search=True,
        ),
        height=Dimension(min=1, max=4),
        wrap_lines=True,
        dont_extend_height=True,
    )
    console = HSplit([_title("console", title), view.console, line, search])
    wide = HSplit(
        [
            VSplit(
                [
                    HSplit([source, listing], width=lambda: Dimension.exact(sizes.code_columns)),
                    Window(width=1, char="│", style="class:line"),
                    HSplit([tensors], width=lambda: Dimension.exact(sizes.tensor_columns)),
                ],
            ),
            console,
        ]
    )
    narrow = HSplit([source, listing, tensors, console])
    bars = [Window(FormattedTextControl(text), height=1, style=style) for text, style in (
        (status, "class:status"), (_keys, "class:keys"),
    )]  # fmt: skip
    everything = FloatContainer(
        HSplit([DynamicContainer(lambda: wide if sizes.wide else narrow), *bars]),
        [Float(CompletionsMenu(max_height=8, scroll_offset=1), xcursor=True, ycursor=True)],
    )
    return Layout(everything, focused_element=line)


def _title(name: str, title: Callable[[str], StyleAndTextTuples]) -> Window:
    return Window(FormattedTextControl(lambda: title(name)), height=1, char="─", style="class:line")


def _keys() -> StyleAndTextTuples:
    """As many keys as fit."""
    room = get_app().output.get_size().columns
    text: StyleAndTextTuples = []
    for key, what in KEYS:
        room -= len(key) + len(what) + 3
        if room < 0:
            break
        text += [("class:key", f" {key} "), ("", f"{what} ")]
    return text
