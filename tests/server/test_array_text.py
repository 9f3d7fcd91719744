"""Tensors as text: rows as NumPy prints them, elements in each format."""

from __future__ import annotations

import numpy as np
import pytest

from opstep_server.cli.output import array_text
from opstep_server.wire import program_pb2

FLOAT32, INT32 = program_pb2.FLOAT32, program_pb2.INT32


@pytest.mark.parametrize(
    "shape", [(3,), (1,), (40,), (2, 3), (2, 30), (2, 2, 3), (3, 1, 2, 2), (2, 2, 2, 2, 2)]
)
def test_rows_are_numpys(shape: tuple[int, ...]):
    array = np.arange(np.prod(shape)).reshape(shape)
    tree = array_text.nested([str(element) for element in array.ravel()], shape)
    shown = "\n".join(array_text.rows(tree, 60))
    assert shown == np.array_str(array, max_line_width=60)


def test_gaps_at_any_depth():
    row = ["1", array_text.GAP, "10"]
    assert array_text.rows([row, array_text.GAP, row], 80) == ["[[ 1  … 10]", " …", " [ 1  … 10]]"]
    assert array_text.rows([[row], array_text.GAP, [row]], 80) == [
        "[[[ 1  … 10]]",
        " …",
        "",
        " [[ 1  … 10]]]",
    ]


@pytest.mark.parametrize(
    ("elements", "shown"),
    [
        ([1.0, -2.0, 0.0], ["1.", "-2.", "0."]),
        ([1.5, -22.25, 0.0], ["1.500", "-22.250", "0.   "]),
        ([0.5, 1e-9, -0.25], ["0.5000", "1e-09", "-0.2500"]),
        ([1e-5, 2e-5], ["1.000e-05", "2.000e-05"]),
        ([1.5e8, 1.0], ["1.500e+08", "1.000e+00"]),
        ([0.5, float("nan"), float("-inf")], ["0.5000", "nan", "-inf"]),
        ([123456.0, 0.5], ["123456.0", "0.5"]),
    ],
)
def test_floats_are_written_in_one_manner(elements: list[float], shown: list[str]):
    assert array_text.texts(elements, FLOAT32) == shown


@pytest.mark.parametrize(
    ("form", "shown"),
    [
        ("x", ["0x00000041", "0xffffffff"]),
        ("b", ["0" * 25 + "1000001", "1" * 32]),
        ("d", ["65", "-1"]),
        ("f", ["65.000000", "-1.000000"]),
        ("e", ["6.500000e+01", "-1.000000e+00"]),
        ("c", ["'A'", "-1"]),
        ("r", ["65", "-1"]),
    ],
)
def test_whole_numbers_in_each_format(form: array_text.Format, shown: list[str]):
    assert array_text.texts([65, -1], INT32, form) == shown


def test_floats_in_each_format():
    third = float(np.float32(1 / 3))
    assert array_text.texts([third], FLOAT32, "x") == ["0x3eaaaaab"]
    assert array_text.texts([third], FLOAT32, "r") == ["0.33333334"]
    assert array_text.texts([float("inf"), 2.75], FLOAT32, "d") == ["inf", "2"]


def test_a_number_that_stands_alone():
    third = float(np.float32(1 / 3))
    assert array_text.scalar(third, "x", FLOAT32) == "0x3eaaaaab"
    assert len(array_text.scalar(-1.5, "b", FLOAT32)) == 32
    assert array_text.scalar(-1.5, "b", FLOAT32).startswith("1011111111")
    assert array_text.scalar(10, "x", program_pb2.INT64) == "0xa"
    assert array_text.scalar(10, "b", program_pb2.INT64) == "0b1010"
