"""Matrices as colours and characters, counts as bars, tensors as NumPy's files."""

from __future__ import annotations

import io

import numpy as np
import pytest

from opstep_server import npy
from opstep_server.cli.commands import heat_map, tensor_commands
from opstep_server.wire import debug_pb2 as pb, program_pb2

NAN, INF = float("nan"), float("inf")


def test_zero_is_in_the_middle_of_values_of_both_signs():
    scale = heat_map._Scale(-1.0, 4.0)
    assert (scale.low, scale.high) == (-4.0, 4.0)
    assert scale.colour(0.0) == "#f7f7f7"
    assert scale.colour(-4.0) == "#053061" and scale.colour(4.0) == "#67001f"


def test_values_of_one_sign_use_the_whole_range():
    scale = heat_map._Scale(2.0, 3.0)
    assert scale.colour(2.0) == "#440154" and scale.colour(3.0) == "#fde725"
    assert heat_map._letters([2.0, 2.5, 3.0], scale) == "| +@|"


def test_what_is_no_number_stands_out():
    scale = heat_map._Scale(0.0, 1.0)
    assert heat_map._letters([NAN, 1.0, -INF], scale) == "|?@!|"
    (nan, one, inf) = heat_map._colours([NAN, 1.0, -INF], scale)
    assert nan == ("bold red reverse", "??") and inf == ("bold red reverse", "!!")
    assert one == ("on #fde725", "  ")


def test_equal_values_are_no_division_by_zero():
    assert heat_map._letters([5.0, 5.0], heat_map._Scale(5.0, 5.0)) == "|++|"


def test_a_bar_is_never_longer_than_its_room_nor_nothing_for_something():
    assert tensor_commands.bar(1.0, 10) == "█" * 10
    assert tensor_commands.bar(0.5, 3) == "█▌"
    assert tensor_commands.bar(1e-9, 10) == "▏"
    assert tensor_commands.bar(0.0, 10) == ""


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4), (1, 2, 3, 4, 5)])
def test_numpy_reads_the_header(shape: tuple[int, ...]):
    array = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    header = npy.header(pb.Tensor(dtype=program_pb2.INT16, dims=shape))
    assert len(header) % 64 == 0
    read = np.load(io.BytesIO(header + array.tobytes()))
    assert read.dtype == np.int16 and read.shape == shape
    np.testing.assert_array_equal(read, array)


def test_bfloat16_is_widened_exactly():
    exact = np.array([1.0, -2.5, 3.0e38, 0.0], np.float32)
    halves = (exact.view(np.uint32) >> 16).astype(np.uint16)
    wide = np.frombuffer(npy.widened(bytearray(halves.tobytes())), np.float32)
    np.testing.assert_array_equal(wide.view(np.uint32), exact.view(np.uint32) & 0xFFFF0000)
