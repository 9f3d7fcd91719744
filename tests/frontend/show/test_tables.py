"""What a notebook shows: tables that any HTML parser reads, with names escaped."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np

import opstep
from harness.world import World
from opstep import layers, metrics, readers


class Table(HTMLParser):
    """The caption, the cells and the number of pictures; every tag is closed by its own end."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.caption, self.rows, self._open, self.pictures = "", [], [], 0
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag in ("table", "caption", "tr", "th", "td", "span", "svg", "path", "text"), tag
        self._open.append(tag)
        self.pictures += tag == "svg"
        if tag == "tr":
            self.rows.append([])
        elif tag in ("th", "td"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        assert tag in ("img", "path"), tag
        self.pictures += tag == "img"

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open[-1:] == ["caption"]:
            self.caption += data
        elif self._open[-1:] in (["th"], ["td"]):
            self.rows[-1][-1] += data


def test_a_program(world: World) -> None:
    x = layers.data("x", shape=[None, 2])
    layers.fc(x, size=3, name="<b>bold</b>")
    table = Table(world.main._repr_html_())
    assert table.caption == "program main: 3 ops"
    assert table.rows[0] == ["#", "op", "takes", "gives", "line"]
    number, op, takes, gives, line = table.rows[2]
    assert (number, op, takes) == ("2", "<b>bold</b>.matmul", "x, <b>bold</b>.w")
    assert gives == "<b>bold</b>.matmul.out float32[?, 3]"
    assert line.startswith("test_tables.py:")


def test_blocks_and_long_programs(world: World) -> None:
    x = layers.data("x", shape=[2])
    layers.cond(layers.mean(x) > 0, lambda: x * 2, lambda: x * 3)
    table = Table(world.main._repr_html_())
    assert len(table.rows) - 1 == sum(len(block.ops) for block in world.main.blocks)
    assert {"block 1: ", "block 2: "} == {row[1][:9] for row in table.rows if ":" in row[1]}
    for _ in range(300):
        x = x + x
    table = Table(world.main._repr_html_())
    assert table.caption.endswith(", of which 200 are shown") and len(table.rows) == 201


def test_a_model_and_its_parameters(world: World) -> None:
    x = layers.data("x", shape=[None, 2])
    model = opstep.model_of(layers.batch_norm(layers.fc(x, size=3)))
    world.scope.set("fc_0.w", np.array([[1, 2, 3], [4, 5, 9]], np.float32))
    table = Table(model._repr_html_())
    assert table.caption == f"model {model.name}"
    assert table.rows[1] == ["fed", "x", "float32[?, 2]", "", ""]
    assert table.rows[2] == [
        *("parameter", "fc_0.w", "float32[2, 3]", "mean 4 std 2.582 [1, 9]", ""),
    ]
    assert table.pictures == 2  # only of fc_0.w: what is all zeros or ones needs none
    assert [row[0] for row in table.rows[3:]] == [*["parameter"] * 3, "kept", "kept", "output"]


def test_variables(world: World) -> None:
    x = layers.data("x", shape=[None, 2])
    out = layers.fc(x, size=1)
    made = dict(Table(out._repr_html_()).rows)
    assert made["type"] == "float32[?, 1]" and made["made by"] == "#3 fc_0.add (add)"
    weight = world.main.global_block().var("fc_0.w")
    assert "value" not in dict(Table(weight._repr_html_()).rows)  # there is none yet
    world.scope.set("fc_0.w", np.array([[np.inf], [1]], np.float32))
    world.scope.set("fc_0.b", np.array([0.5], np.float32))
    table = Table(weight._repr_html_())
    assert table.caption == "parameter fc_0.w"
    assert dict(table.rows)["value"] == "mean inf std nan [1, inf], 1 not finite"
    assert table.pictures == 2
    bias = world.main.global_block().var("fc_0.b")
    assert dict(Table(bias._repr_html_()).rows)["value"] == "0.5"


def test_an_op_that_names_variables_of_its_block(world: World) -> None:
    rnn = layers.Recurrent()
    with rnn.step():
        rnn.output(rnn.step_input(layers.data("x", shape=[4, 2])) * 2)
    rnn()
    names = [row[1] for row in Table(world.main._repr_html_()).rows]
    assert any(name.startswith("recurrent") for name in names), names


def test_a_machine_and_its_updater(world: World) -> None:
    x = layers.data("x", shape=[None, 2])
    loss = layers.mean(layers.fc(x, size=1))
    machine = opstep.gradient_machine(opstep.model_of(loss))
    table = Table(machine._repr_html_())
    assert table.caption == f"gradient machine for {loss.name}"
    assert [row[:2] for row in table.rows[1:]] == [["fed", "x"], ["output", loss.name]]

    updater = opstep.updater(opstep.optimizer.SGD(opstep.lr.StepDecay(0.1, every=7)))
    assert dict(Table(updater._repr_html_()).rows)["updates"] == "nothing yet"
    machine.feed({"x": np.array([[1, 2], [3, 4]], np.float32)}).backward()
    gradients = [row for row in Table(machine._repr_html_()).rows if row[0] == "gradient"]
    assert gradients[0] == [
        *("gradient", "fc_0.w@grad", "float32[2, 1]", "mean 2.5 std 0.5 [2, 3]", ""),
    ]
    assert gradients[1][1:4] == ["fc_0.b@grad", "float32[1]", "1.0"]
    updater.update(machine)
    facts = dict(Table(updater._repr_html_()).rows)
    assert facts == {
        "optimizer": "SGD",
        "learning rate": "StepDecay(rate=0.1, every=7, gamma=0.1)",
        "steps": "1",
        "updates": "fc_0.w, fc_0.b",
    }


def test_readers() -> None:
    data = {"x": np.zeros((10, 2), np.float32), "<i>": np.zeros(10, np.int64)}
    reader = readers.from_arrays(data, batch=4)
    about = "10 rows, 4 at a time: x float32[2], <i> int64[]"
    assert repr(reader) == f"<reader of {about}>"
    assert dict(Table(reader._repr_html_()).rows) == {
        "gives": about,
        "ends": "after each pass",
        "passes begun": "0",
    }
    reader()
    reader()
    facts = dict(Table(reader._repr_html_()).rows)
    assert (facts["passes begun"], facts["next x"]) == ("1", "float32[2, 2]")
    assert reader()[1], "looking at it took a minibatch"
    endless = reader.take(2).repeat()
    assert dict(Table(endless._repr_html_()).rows)["ends"] == "never"
    assert repr(endless) == f"<reader of {about}, at most 2 minibatches a pass, over and over>"


def test_metrics() -> None:
    accuracy = metrics.Accuracy()
    assert dict(Table(accuracy._repr_html_()).rows) == {"value": "none: nothing was appended yet"}
    accuracy.append([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]], [0, 1, 1])
    facts = dict(Table(accuracy._repr_html_()).rows)
    assert facts == {"value": "0.666667", "right": "2", "rows": "3"}
    both = metrics.PrecisionRecall()
    both.append([0.9, 0.8, 0.1], [1, 0, 1])
    facts = dict(Table(both._repr_html_()).rows)
    assert facts == {"precision": "0.5", "recall": "0.5", "f1": "0.5", "rows": "3"}
