"""Every dtype edited as by NumPy, memory as bytes, and a run that began without a debugger."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.edited_program import stopped
from harness.patience import SECONDS
from opstep_server.debugger import Debugger
from opstep_server.model import DebuggerError, StoppedEvent

pytestmark = pytest.mark.e2e

FLOATS = ["float32", "float64", "float16"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8"]


def subscript(rng: np.random.Generator, size: int) -> str:
    kind = rng.integers(4)
    if kind == 0:
        return str(rng.integers(-size, size))
    if kind == 1:
        return ":"
    start, stop = rng.integers(-size - 1, size + 2, 2)
    step = rng.choice([-2, -1, 1, 2, 3])
    return f"{start}:{stop}:{step}" if kind == 2 else f"{start}:{stop}"


def random_target(rng: np.random.Generator, shape: tuple[int, ...]) -> str:
    """`[1, ::2]`, or nothing at all."""
    choice = rng.integers(10)
    if choice == 0:
        return ""
    if choice == 1:
        return "[" + str(rng.integers(0, shape[0], rng.integers(1, 6)).tolist()) + "]"
    if choice == 2:
        return "[..., " + subscript(rng, shape[-1]) + "]"
    count = rng.integers(1, len(shape) + 1)
    return "[" + ", ".join(subscript(rng, size) for size in shape[:count]) + "]"


def random_value(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> str:
    """A list or a number that fits, of a shape that broadcasts to `shape`."""
    dims = list(shape[rng.integers(0, len(shape) + 1) :])
    dims = [1 if rng.random() < 0.2 else size for size in dims]
    if dtype == "bool":
        values: Any = rng.integers(0, 2, dims) > 0
    elif dtype in INTEGERS:
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max, dims, dtype=dtype, endpoint=True)
    else:
        values = rng.standard_normal(dims) * 10.0 ** rng.integers(-4, 4)
    return repr(np.asarray(values).tolist())


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
def test_assignments_are_numpys(tmp_path: Path, dtype: str) -> None:
    rng = np.random.default_rng(sorted(FLOATS + INTEGERS + ["bool"]).index(dtype))

    async def main() -> None:
        async with stopped(tmp_path, "dtypes", "tanh") as stop:
            expected = (await stop.value(f"{dtype}.out")).copy()
            done = 0
            while done < 60:
                target = random_target(rng, expected.shape)
                chosen = np.asarray(eval(f"a{target}", {"a": expected}))
                if 0 in chosen.shape:
                    continue
                done += 1
                value = random_value(rng, dtype, chosen.shape)
                if target:
                    exec(f"a{target} = {value}", {"a": expected})
                else:
                    expected[...] = eval(value)
                await stop.assign(f"{dtype}.out{target}", value)
                got = await stop.value(f"{dtype}.out")
                assert got.tobytes() == expected.tobytes(), (target, value)
            results = await stop.finish()
            assert results[f"{dtype}.out_1"].tobytes() == expected.tobytes()

    asyncio.run(main())


def test_values_are_converted_when_they_fit_and_refused_when_not(tmp_path: Path) -> None:
    fits = [
        ("int8", "-128", -128),
        ("int8", "127.0", 127),
        ("uint8", "True", 1),
        ("int64", str(2**63 - 1), 2**63 - 1),
        ("bool", "1", True),
        ("float16", "65504", 65504),
        ("float16", "inf", np.inf),
        ("float16", "1 / 3", float(np.float16(1 / 3))),
        ("float16", "2049.0000001", 2050),  # one rounding, not two
        ("bfloat16", "1.00390625000001", 1.0078125),
        ("float32", "int64.out[0, 0, 0] * 0 + 3", 3),
    ]
    refused = [
        ("int8", "300", "300 does not fit int8"),
        ("uint8", "-1", "-1 does not fit uint8"),
        ("int32", "2.5", "2.5 is not a whole number: it does not fit int32"),
        ("int64", "nan", "nan is not a whole number: it does not fit int64"),
        ("int64", "2.0 ** 63", "9.22337e+18 does not fit int64"),
        ("int16", "int64.out * 0 + 40000", "40000 does not fit int16"),
        ("bool", "2", "2 does not fit bool: it takes True and False"),
        ("float16", "65520", "65520 does not fit float16"),
        ("float32", "1e39", "1e+39 does not fit float32"),
    ]

    async def main() -> None:
        async with stopped(tmp_path, "dtypes", "tanh") as stop:
            for dtype, text, expected in fits:
                answer = await stop.assign(f"{dtype}.out[1, 1, 1]", text)
                kind = answer.WhichOneof("kind")
                assert kind is not None and getattr(answer, kind) == expected, (dtype, text)
            for dtype, text, why in refused:
                before = await stop.value(f"{dtype}.out")
                with pytest.raises(DebuggerError) as error:
                    await stop.assign(f"{dtype}.out", text)
                assert str(error.value) == why
                assert (await stop.value(f"{dtype}.out")).tobytes() == before.tobytes()
            # A scalar variable has no axes.
            assert (await stop.assign("one.out", "0")).WhichOneof("kind") == "f"
            results = await stop.finish()
            assert results["end.out_1"] == 0 and results["end.out_2"] != 0

    asyncio.run(main())


def test_bytes(tmp_path: Path) -> None:
    async def main() -> None:
        async with stopped(tmp_path, "dtypes", "tanh") as stop:
            debugger, thread = stop.debugger, stop.thread.id
            array = await stop.value("int32.out")
            # A part that lies together, one that does not, and something computed.
            for text, expected in (
                ("int32.out[1:3]", array[1:3]),
                ("int32.out[:, 1, ::2]", array[:, 1, ::2]),
                ("int32.out * 2", array * 2),
                ("int32.out[0, 0, 0]", array[0, 0, 0]),
            ):
                raw = expected.tobytes()
                assert await debugger.read_bytes(thread, 0, text, 0, 1000) == (raw, len(raw))
                assert await debugger.read_bytes(thread, 0, text, 2, 1) == (raw[2:3], len(raw))
            new = np.arange(8, 13, dtype=np.int32)
            await debugger.write_bytes(thread, 0, "int32.out[2]", 20, new.tobytes())
            assert (await stop.value("int32.out[2, 1]")).tolist() == new.tolist()
            for target, offset, data, why in (
                ("int32.out[2]", 58, b"1234", "bytes 58 to 62 do not fit: there are 60"),
                ("int32.out[:, 0]", 0, b"1", "is not contiguous in memory"),
                ("int32.out + 1", 0, b"1", "only a variable or a part of one"),
                ("bool.out", 3, b"\1\2", "a bool is the byte 0 or 1, not 2"),
                ("end.out", 0, b"1234", "end.out has not been written yet"),
            ):
                with pytest.raises(DebuggerError, match=why):
                    await debugger.write_bytes(thread, 0, target, offset, data)
            for text, offset, why in (
                ("int32.out", 241, "byte 241 is not there: the value has 240"),
                ("op", 0, "takes numbers, not a string"),
                ("end.out", 0, "has not been written yet"),
            ):
                with pytest.raises(DebuggerError, match=why):
                    await debugger.read_bytes(thread, 0, text, offset, 1)
            results = await stop.finish()
            assert results["int32.out_1"][2, 1].tolist() == new.tolist()

    asyncio.run(main())


def test_a_large_tensor_comes_whole_and_goes_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with stopped(tmp_path, "large", "reduce_sum") as stop:
            y = await stop.value("y.out")
            assert y.shape == (2048, 2048)
            computed = await stop.value("y.out[::2, ::3] + 1")
            assert computed.tobytes() == (y[::2, ::3] + 1).tobytes()
            new = np.ones_like(y)
            new[7, 9] = 5
            await stop.debugger.write_bytes(stop.thread.id, 0, "y.out", 0, new.tobytes())
            results = await stop.finish()
            assert results["z.out_1"] == 2048 * 2048 + 4

    asyncio.run(main())


def test_names(tmp_path: Path) -> None:
    async def main() -> None:
        async with stopped(tmp_path, "loop", "sub", "iteration == 1") as stop:
            op = await stop.debugger.names(stop.thread.id, 0)
            assert {"total.out", "k.out", "x", "limit.out"} <= set(op.variables)
            assert list(op.slots) == ["X", "Y", "out"]
            run = await stop.debugger.names(stop.thread.id, 2)
            assert "total.out" in run.variables and "k.out" not in run.variables
            assert not run.slots

    asyncio.run(main())


LATE = """
import sys, threading, time
import numpy as np
import opstep
from opstep import layers

main = opstep.Program("main")
with opstep.program_guard(main, opstep.Program("startup")):
    x = layers.data("x", shape=[3])
    early = layers.exp(x, name="early")
    kept = layers.neg(early, name="kept")
    i = layers.fill([1], 0, "int64", name="i")
    limit = layers.assign(layers.fill([1], 1 << 60, "int64"), name="limit")
    running = layers.less_than(i, limit)
    loop = layers.While(running)
    with loop.block():
        layers.increment(i)
        layers.less_than(i, limit, out=running)
    after = layers.mul(kept, kept, name="after")


def connect():
    # By then the loop runs, however busy the machine is.
    while time.process_time() < began + 0.3:
        time.sleep(0.01)
    opstep.debug.connect(sys.argv[1])

began = time.process_time()
threading.Thread(target=connect).start()
(result,) = opstep.Executor().run(main, {"x": np.zeros(3, np.float32)}, [after])
print("result", result.tolist())
"""


def test_a_run_that_was_under_way_before_the_debugger_came(tmp_path: Path) -> None:
    """Its outer block is in the shape that uses memory again: what is there can be edited."""
    program = tmp_path / "late.py"
    program.write_text(LATE)

    async def main() -> None:
        debugger = Debugger()
        stops: asyncio.Queue[StoppedEvent] = asyncio.Queue()
        debugger.subscribe(lambda e: stops.put_nowait(e) if isinstance(e, StoppedEvent) else None)
        address = await debugger.listen()
        child = subprocess.Popen(
            [sys.executable, str(program), address], stdout=subprocess.PIPE, text=True
        )
        try:
            while not debugger.threads:
                await asyncio.sleep(0.05)
            await debugger.pause(debugger.threads[0].id)
            thread = (await asyncio.wait_for(stops.get(), SECONDS)).thread.id
            with pytest.raises(DebuggerError, match=r"early\.out was released after op #\d+ kept"):
                await debugger.assign(thread, 0, "early.out", "1")
            with pytest.raises(DebuggerError, match=r"after\.out has not been written yet"):
                await debugger.assign(thread, 2, "after.out", "1")
            await debugger.assign(thread, 2, "kept.out[1:]", "[3, 4]")
            await debugger.assign(thread, 0, "limit.out", "0")
            await debugger.resume(thread, "continue")
            output, _ = await asyncio.to_thread(child.communicate, timeout=SECONDS)
            assert output == "result [1.0, 9.0, 16.0]\n"
        finally:
            child.kill()
            child.communicate()
            await debugger.close()

    asyncio.run(main())
