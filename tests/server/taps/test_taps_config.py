"""taps.toml: what it makes, and what is said of mistakes in it."""

from __future__ import annotations

import datetime
import importlib.util
import os
import textwrap
from pathlib import Path

import pytest

from opstep_server.cli.log import option_settings
from opstep_server.cli.log.log_options import parse_log
from opstep_server.taps import config, quantities
from opstep_server.taps.toml_lines import Lines
from opstep_server.wire import debug_pb2 as pb

WHOLE = """
server = "train"

[sinks.main]
kind = "jsonl"
path = "logs"
rotate_bytes = "1MB"

[[tap]]
name = "convs"
ops = "conv*"
what = ["stats", "histogram", "samples"]
bins = 32
every = 100
per_second = "50/s"
for = "1h30m"
to = ["main"]

[[tap]]
gradient_of = "fc_0.w"
condition = "isnan(out).any()"
probability = 0.25
seed = 7
until = 2026-12-01T00:00:00Z
count = 1000
enabled = false

[limits]
memory = "8MiB"
"""


def parse(text: str) -> config.Settings:
    return config.parse(textwrap.dedent(text))


def problem(text: str) -> str:
    with pytest.raises(config.ConfigError) as raised:
        parse(text)
    return str(raised.value)


def test_a_file_becomes_taps_and_sinks() -> None:
    found = parse(WHOLE)
    assert (found.server, found.memory) == ("train", 8 << 20)
    (sink,) = found.sinks
    assert (sink.name, sink.kind, sink.path) == ("main", "jsonl", os.path.abspath("logs"))
    assert sink.settings == {"rotate_bytes": 1_000_000, "keep": 0}
    convs, gradient = found.taps
    assert (convs.name, convs.to) == ("convs", ("main",))
    message = convs.message
    assert message.where.pattern == "conv*"
    assert (message.statistics, message.histogram_bins, message.samples) == (True, 32, 16)
    assert (message.every, message.per_second, message.seconds) == (100, 50.0, 5400.0)
    assert (message.outputs, message.inputs, message.full) == (True, False, False)
    message = gradient.message
    assert gradient.name == "gradient of fc_0.w"
    assert message.gradient_of
    assert message.where.data.variable == "fc_0.w"
    assert message.condition_text == "isnan(out).any()"
    assert message.condition.WhichOneof("node") == "call"
    assert (message.probability, message.seed, message.count) == (0.25, 7, 1000)
    assert message.until == datetime.datetime(2026, 12, 1, tzinfo=datetime.timezone.utc).timestamp()
    assert message.disabled


@pytest.mark.parametrize(
    ("place", "wanted"),
    [
        ("op = 12", pb.Breakpoint(op=pb.OpRef(op=12))),
        ('listing = "main:4"', pb.Breakpoint(listing=pb.ListingLine(program_name="main", line=4))),
        ("listing = 4", pb.Breakpoint(listing=pb.ListingLine(line=4))),
        ('variable = "w"', pb.Breakpoint(data=pb.DataWritten(variable="w"))),
        ('ops = "grad:conv*"', pb.Breakpoint(pattern="grad:conv*")),
    ],
)
def test_places(place: str, wanted: pb.Breakpoint) -> None:
    found = parse(f'[sinks.a]\nkind = "jsonl"\n[[tap]]\n{place}')
    assert found.taps[0].message.where == wanted


def test_files_of_lines_are_whole_and_without_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "train.py").touch()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    text = '[sinks.a]\nkind = "jsonl"\n[[tap]]\nline = "link/train.py:41"\ngradients = true'
    (found,) = config.parse(text, str(tmp_path / "taps.toml")).taps
    assert found.message.where.line.file == str(tmp_path.resolve() / "real" / "train.py")
    assert found.message.where.line.line == 41
    assert found.message.where.gradients


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("evry = 2", "taps.toml:5: 'evry' is not a key of a tap: did you mean 'every'?"),
        ("every = 0", "taps.toml:5: every: 0 is not a whole number from 1"),
        ("every = true", "taps.toml:5: every: true is not a whole number from 1"),
        (
            'what = ["histogramm"]',
            "taps.toml:5: what: 'histogramm' cannot be recorded: did you mean 'histogram'?",
        ),
        (
            'for = "10 fortnights"',
            "taps.toml:5: for: '10 fortnights' is not a duration: write '90s', '10m' or '1h30m'",
        ),
        (
            'until = "tomorrow"',
            "taps.toml:5: until: 'tomorrow' is not a date: write 2026-12-01 or "
            "2026-12-01T18:00:00Z for UTC",
        ),
        (
            'max_bytes = "4 parsec"',
            "taps.toml:5: max_bytes: '4 parsec' is not a size: write '64MB', '1GiB' or a number of "
            "bytes",
        ),
        (
            "probability = 2",
            "taps.toml:5: probability: 2 is not a probability: write a number above 0 and up to 1",
        ),
        ('to = ["mian"]', "taps.toml:5: there is no sink 'mian': did you mean 'main'?"),
        (
            'condition = "out.maen() > 1"',
            "taps.toml:5: condition: 'out.maen() > 1' cannot be used: there is no function "
            "'maen' (column 1): did you mean 'mean'?",
        ),
        ('line = "train.py:41"', "taps.toml:5: which ops? both ops and line are said"),
        ("seed = 1", "taps.toml:5: seed belongs to probability: say with which chance"),
        ("outputs = false", "taps.toml:5: without outputs say inputs = true, or a value"),
        ('name = "a\\nb"', "taps.toml:5: name: 'a\\nb' is too long, or holds control characters"),
    ],
)
def test_mistakes_in_a_tap(line: str, sentence: str) -> None:
    assert problem(f'[sinks.main]\nkind = "jsonl"\n[[tap]]\nops = "x"\n{line}\n') == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[tap]\n", "taps.toml:1: "),
        ('[sinks.a]\nkind = "jsonl"\npath = "x', "taps.toml:3: "),
        ("taps = 1", "taps.toml:1: 'taps' is not a key of taps.toml: did you mean 'tap'?"),
        ("[tap]\nops = 'x'", "taps.toml:1: a tap begins with [[tap]], in two pairs of brackets"),
        (
            "[[tap]]\nops = 'x'",
            'taps.toml:1: there is no sink: add [sinks.main] with kind = "jsonl"',
        ),
        (
            '\n[sinks.a]\nkind = "parkett"',
            "taps.toml:3: 'parkett' is not a kind of sink: did you mean 'parquet'?",
        ),
        ("[sinks.a]\n", "taps.toml:1: the sink has no kind: there are jsonl, tensorboard, "),
        (
            '[sinks.a]\nkind = "jsonl"\nrotate = 1',
            "taps.toml:3: 'rotate' is not a key of a sink of kind jsonl: "
            "did you mean 'rotate_bytes'?",
        ),
        (
            '[sinks.a]\nkind = "jsonl"\nkeep = "all"',
            "taps.toml:3: keep: 'all' is not a whole number",
        ),
        (
            '[sinks.a]\nkind = "jsonl"\npath = "../x"',
            "taps.toml:3: path: '../x' leaves the directory ",
        ),
        (
            '[sinks.a]\nkind = "prometheus"\nlisten = "nowhere"',
            "taps.toml:1: 'listen' of a prometheus sink: 'nowhere' is not an address: ",
        ),
        ('[limits]\nmemory = "lots"', "taps.toml:2: memory: 'lots' is not a size: "),
        ("server = 3", "taps.toml:1: 3 is not a name for a server"),
    ],
)
def test_mistakes_in_the_file(text: str, sentence: str) -> None:
    assert problem(text).startswith(sentence)


def test_two_taps_of_one_name() -> None:
    text = '[sinks.a]\nkind = "jsonl"\n[[tap]]\nops = "x"\n[[tap]]\nops = "x"\n'
    assert problem(text) == "taps.toml:5: there is another tap 'x': give each a name of its own"


def test_a_path_may_not_leave_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "way_out").symlink_to(tmp_path)
    text = '[sinks.a]\nkind = "jsonl"\npath = "way_out/logs"'
    with pytest.raises(config.ConfigError, match="leaves the directory"):
        config.parse(text, str(tmp_path / "inside" / "taps.toml"))
    absolute = config.parse(f'[sinks.a]\nkind = "jsonl"\npath = "{tmp_path}/logs"')
    assert absolute.sinks[0].path == f"{tmp_path}/logs"


def test_a_sink_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "pyarrow" else real(name)
    )
    found = problem('[sinks.a]\nkind = "parquet"')
    assert found.startswith(
        "taps.toml:2: the sink 'parquet' needs the package pyarrow: pip install"
    )
    assert "opstep-server[parquet]" in found


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(config.ConfigError, match=r"cannot read .*: No such file"):
        config.read(str(tmp_path / "none.toml"))
    (tmp_path / "bytes.toml").write_bytes(b'server = "x"\n\xff\xfe')
    with pytest.raises(config.ConfigError, match=r"bytes\.toml:2: this is not UTF-8 text"):
        config.read(str(tmp_path / "bytes.toml"))


def test_lines_of_keys() -> None:
    text = textwrap.dedent('''\
        # [[tap]] in a comment
        server = "[[tap]]"
        sinks.main.kind = "jsonl"
        text = """
        [[tap]]
        every = 1
        """
        [[tap]]
        what = [
          "stats",  # ]
          "full",
        ]
        "every" = 3
        [tap.deeper]
        x = 1
        [[tap]]
        other = '[not = a table'
        last = { a = 1, b = [2] }
        ''')
    lines = Lines(text)
    assert lines.of(("server",)) == 2
    assert lines.of(("sinks", "main", "kind")) == 3
    assert lines.of(("text",)) == 4
    assert lines.of(("tap", 0)) == 8
    assert lines.of(("tap", 0, "what")) == 9
    assert lines.of(("tap", 0, "every")) == 13
    assert lines.of(("tap", 0, "deeper", "x")) == 15
    assert lines.of(("tap", 1)) == 16
    assert lines.of(("tap", 1, "other")) == 17
    assert lines.of(("tap", 1, "last", "b")) == 18
    assert lines.of(("tap", 1, "nowhere")) == 16
    assert lines.of(("nowhere",)) == 1


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("90s", 90), ("10m", 600), ("1h30m", 5400), (2, 2)]
)
def test_durations(text: object, seconds: float) -> None:
    assert quantities.seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MB", 64_000_000), ("1.5GiB", 3 << 29), ("12", 12), (7, 7), ("2 KB", 2000)],
)
def test_sizes(text: object, size: int) -> None:
    assert quantities.size(text) == size


@pytest.mark.parametrize("wrong", ["", "-1s", "0", True, 0, [], "1h 2x", float("inf"), "m"])
def test_no_durations(wrong: object) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        quantities.seconds(wrong)


def test_two_sinks_do_not_write_the_same_files() -> None:
    text = '[sinks.a]\nkind = "jsonl"\npath = "logs"\n[sinks.b]\nkind = "jsonl"\npath = "./logs"\n'
    with pytest.raises(
        config.ConfigError, match=r"^taps\.toml:6: sink a writes to .*logs too: give each"
    ):
        config.parse(text)


def test_options_mean_what_keys_mean() -> None:
    made = option_settings.settings(parse_log(["1", "a", "--for", "10", "--histogram"]), ["."])
    assert (made.taps[0].message.seconds, made.taps[0].message.histogram_bins) == (10, 64)
    with pytest.raises(config.ConfigError, match="--histogram: 0 is not a whole number from 1"):
        option_settings.settings(parse_log(["1", "a", "--histogram", "0"]), ["."])
