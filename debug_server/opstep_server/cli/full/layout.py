"""Where the panes stand: side by side in a wide terminal, below each other in a narrow one."""

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

from opstep_server.cli.full.panes import Pane
from opstep_server.cli.full.view import View

# From so many columns on, tensors stand beside the code.
_WIDE = 120
# With fewer rows there is no room for these panes.
_ROWS = {"listing": 20, "tensors": 14, "source": 8}
KEYS = (
    ("F5", "continue"), ("F10", "next"), ("F11", "step"), ("⇧F11", "finish"), ("F9", "break"),
    ("^C", "pause"), ("F8", "next op"), ("F7", "into op"), ("F6", "pane"),
    ("PgUp/Dn", "scroll"), ("Tab", "complete"), ("^X A", "lines"),
)  # fmt: skip

Text = Callable[[], StyleAndTextTuples]


def layout(
    view: View, shown: set[str], title: Callable[[str], StyleAndTextTuples], buffer: Buffer,
    prompt: Text, status: Text,
) -> Layout:  # fmt: skip
    """`shown` are the panes that are wanted; `title` is what stands above each."""
    source = _pane("source", view.source, 4, shown, title)
    listing = _pane("listing", view.listing, 3, shown, title)
    tensors = _pane("tensors", view.tensors, 3, shown, title)
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
    console = HSplit(
        [_title("console", title), Window(view.console, height=Dimension(min=1)), line, search],
        height=Dimension(weight=4),
    )
    wide = HSplit(
        [
            VSplit(
                [
                    HSplit([source, listing], width=Dimension(weight=3)),
                    Window(width=1, char="│", style="class:line"),
                    HSplit([tensors], width=Dimension(weight=2)),
                ],
                height=Dimension(weight=6),
            ),
            console,
        ]
    )
    narrow = HSplit([source, listing, tensors, console])
    code = {"source", "listing"}

    def body() -> AnyContainer:
        size = get_app().output.get_size()
        side_by_side = "tensors" in shown and code & shown and size.rows >= _ROWS["tensors"]
        return wide if size.columns >= _WIDE and side_by_side else narrow

    bars = [Window(FormattedTextControl(text), height=1, style=style) for text, style in (
        (status, "class:status"), (_keys, "class:keys"),
    )]  # fmt: skip
    everything = FloatContainer(
        HSplit([DynamicContainer(body), *bars]),
        [Float(CompletionsMenu(max_height=8, scroll_offset=1), xcursor=True, ycursor=True)],
    )
    return Layout(everything, focused_element=line)


def _pane(
    name: str,
    control: Pane,
    weight: int,
    shown: set[str],
    title: Callable[[str], StyleAndTextTuples],
) -> AnyContainer:
    rows = _ROWS[name]
    return ConditionalContainer(
        HSplit(
            [_title(name, title), Window(control, height=Dimension(min=1))],
            height=Dimension(weight=weight),
        ),
        Condition(lambda: name in shown and get_app().output.get_size().rows >= rows),
    )


def _title(name: str, title: Callable[[str], StyleAndTextTuples]) -> Window:
    return Window(FormattedTextControl(lambda: title(name)), height=1, char="─", style="class:line")


def _keys() -> StyleAndTextTuples:
    """As many as fit."""
    room = get_app().output.get_size().columns
    text: StyleAndTextTuples = []
    for key, what in KEYS:
        room -= len(key) + len(what) + 3
        if room < 0:
            break
        text += [("class:key", f" {key} "), ("", f"{what} ")]
    return text
