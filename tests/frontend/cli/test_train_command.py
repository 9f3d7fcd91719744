"""`opstep run train.opstep`: programs that train by themselves, as processes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import opstep
from harness.training_programs import PARAMETERS, build, command, fails, same, values, write
from opstep import layers, readers, records
from opstep.cli import progress


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write(tmp_path / "train.rec")


@pytest.fixture
def program(data: Path, tmp_path: Path) -> Path:
    path = tmp_path / "train.opstep"
    build(data, path)
    return path


# --- to the end ---------------------------------------------------------------------------------


def test_a_program_trains_itself(program: Path, tmp_path: Path) -> None:
    done = command(program, "--allow-files", "--out", "trained", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"35 iterations in [\d.e-]+ s: [\d,]+ it/s, loss [\d.]+\n", done.stderr)

    merged, scope = opstep.Program.load(program), opstep.Scope()
    opstep.Executor().run(merged, scope=scope)
    kept = values(tmp_path / "trained" / PARAMETERS)
    assert {"fc_0.w", "lr", "train.step"} <= kept.keys()
    assert all(np.array_equal(kept[name], scope.find(name)) for name in kept)
    assert not list(tmp_path.glob("*.checkpoint*"))


def test_compiled_and_run_in_python(program: Path) -> None:
    merged = opstep.Program.load(program)
    scopes = [opstep.Scope() for _ in range(3)]
    opstep.Executor().run(merged, scope=scopes[0])
    (first,) = opstep.compile(merged, fetches=["train.loss.all"], scope=scopes[1])()
    (second,) = merged.run(fetch_list=["train.loss.all"], scope=scopes[2])
    assert first.shape == (5,) and np.array_equal(first, second)
    for scope in scopes[1:]:
        assert np.array_equal(scope.find("fc_0.w"), scopes[0].find("fc_0.w"))
        assert (scope.find("train.step"), scope.find("train.total")) == (0, 35)


def test_fewer_steps_and_what_is_fetched(program: Path, tmp_path: Path) -> None:
    done = command(
        program, "--allow-files", "--steps", 14, "--fetch", "train.loss.all", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("train.loss.all float32[2] = [")
    note, line = done.stderr.splitlines()
    assert note == "trained values are not kept: add --out DIR to write them"
    assert line.startswith("14 iterations in ")


def test_other_settings(program: Path, tmp_path: Path) -> None:
    def trained(*args: object) -> dict[str, np.ndarray]:
        done = command(program, "--allow-files", "--out", "out", *args, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return values(tmp_path / "out" / PARAMETERS)

    usual, unchanged, frozen = trained(), trained("--set", "lr=0.05"), trained("--set", "lr=0")
    assert all(np.array_equal(usual[name], unchanged[name]) for name in usual)
    scope = opstep.Scope()
    merged = opstep.Program.load(program)
    opstep.Executor().run(merged.prune(merged._core.once_flags()), scope=scope)
    assert frozen["lr"] == 0
    assert np.array_equal(frozen["fc_0.w"], scope.find("fc_0.w"))
    assert not np.array_equal(usual["fc_0.w"], frozen["fc_0.w"])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("ls=1", "program 'main_merged' has no setting 'ls' (it has lr); did you mean 'lr'?"),
        ("lr=fast", "--set lr=fast: it is float32[]"),
        ("lr=1,2", "--set lr: 2 numbers are given, but it is float32[]"),
        ("train.step=0.5", "--set train.step=0.5: it is int64[]"),
    ],
)
def test_wrong_settings(program: Path, tmp_path: Path, given: str, told: str) -> None:
    assert told in fails(program, "--allow-files", "--set", given, cwd=tmp_path)


def test_a_setting_has_a_name_of_its_own() -> None:
    with opstep.program_guard(opstep.Program(), opstep.Program()):
        count = layers.setting("count", 3, dtype="int64")
        assert (count.shape, count.dtype, count.persistable) == ((), "int64", True)
        with pytest.raises(opstep.Error, match=r"\[setting\] there is a variable 'count' already"):
            layers.setting("count", 4)


def test_options_for_loops_only(program: Path, tmp_path: Path) -> None:
    main = opstep.Program("plain")
    with opstep.program_guard(main, opstep.Program("startup")):
        layers.fill([1], 0)
    main.save(tmp_path / "plain.opstep")
    told = fails("plain.opstep", "--steps", 3, cwd=tmp_path)
    assert "--steps is for loops over readers, and 'plain' has none" in told
    told = fails("plain.opstep", "--data", "train.rec", cwd=tmp_path)
    assert "program 'plain' reads data in none" in told
    told = fails(program, "--allow-files", "--repeat", 2, cwd=tmp_path)
    assert "--steps, not --repeat, says how often" in told


def test_a_line_now_and_then_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_LINE_EVERY_SECONDS", 0.001)
    loops = [
        progress.Loop(op, name, f"{name}.step", f"{name}.total", [f"{name}.loss.latest"], [])
        for op, name in enumerate(["train", "test"], 1)
    ]
    scope = opstep.Scope()
    for name in ("train", "test"):
        scope.set(f"{name}.loss.latest", np.float32(0.125))
        scope.set(f"{name}.total", 5000 if name == "train" else -1)
    scope.set("filled", False)

    def until(text: str) -> None:
        said = ""
        while text not in said:
            said += capsys.readouterr().err

    with progress.Progress(scope, loops, ["filled"]):
        scope.set("train.step", 77)  # not yet what it says
        scope.set("train.step", 1200)
        scope.set("filled", True)
        until("train: 1,200 of 5,000 iterations, loss 0.125\n")
        scope.set("train.step", 0)
        scope.set("test.step", 3)
        until("test: 3 iterations, loss 0.125\n")
    assert progress.clock(3723.4) == "1:02:03" and progress.clock(3) == "0:03"


# --- data ---------------------------------------------------------------------------------------


def test_a_program_reads_only_what_it_is_given(program: Path, tmp_path: Path) -> None:
    told = fails(program, cwd=tmp_path)
    assert "names the data that it reads by itself (op #" in told and "--data FILE.rec" in told

    (tmp_path / "train.rec").rename(tmp_path / "moved.rec")
    done = command(program, "--data", "moved.rec", "--out", "moved", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "moved.rec").rename(tmp_path / "train.rec")
    done = command(program, "--allow-files", "--out", "own", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert same(tmp_path / "moved" / PARAMETERS, tmp_path / "own" / PARAMETERS)


def test_damaged_data_end_a_training_or_are_counted(
    program: Path, data: Path, tmp_path: Path
) -> None:
    reader, damaged = records.Reader(data), tmp_path / "damaged.rec"
    with records.Writer(damaged, reader.fields, chunk_bytes=500) as writer:
        for record in reader:
            writer.write(**record)
    whole = damaged.read_bytes()
    at = len(whole) // 2
    damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    given = ("--data", damaged, "--out", "trained")
    said = fails(program, "--allow-files", *given, cwd=tmp_path)
    assert f"'{damaged}' is damaged at byte " in said
    assert "--skip-damaged" in said
    assert not (tmp_path / "trained" / PARAMETERS).exists()
    lost = records.Reader(damaged, damaged="skip").verify().records
    skipping = ("--allow-files", "--skip-damaged")
    done = command(program, *skipping, "--data", damaged, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{lost} records of " in done.stderr
    assert done.stderr.endswith(f", {lost} damaged records left out\n")
    # The program's own data too.
    data.write_bytes(damaged.read_bytes())
    assert "is damaged at byte" in fails(program, "--allow-files", "--out", "trained", cwd=tmp_path)
    done = command(program, *skipping, cwd=tmp_path)
    assert done.stderr.endswith(f", {lost} damaged records left out\n")


def test_data_in_several_files_and_by_name(program: Path, tmp_path: Path) -> None:
    for seed in (1, 2):
        write(tmp_path / f"part{seed}.rec", seed, count=50)
    done = command(
        program, "--data", "train=part1.rec", "--data", "train=part2.rec", "--out", "a",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("35 iterations")
    done = command(
        program, "--data", "part1.rec", "--data", "part2.rec", "--out", "b", cwd=tmp_path
    )
    assert same(tmp_path / "a" / PARAMETERS, tmp_path / "b" / PARAMETERS)
    done = command(program, "--data", "part1.rec", "--steps", 3, cwd=tmp_path)
    assert "3 iterations" in done.stderr


def test_data_that_do_not_fit(program: Path, tmp_path: Path) -> None:
    write(tmp_path / "wide.rec", x=("float32", [9]), y=("float32", [1]))
    told = fails(program, "--data", "wide.rec", cwd=tmp_path)
    assert (
        "'wide.rec' has records of x float32[9], y float32[1], but 'read_records_0' of program "
        "'main_merged' gives x float32[8], y float32[1]: write files with the same fields"
    ) in told
    told = fails(program, "--data", "trian=wide.rec", cwd=tmp_path)
    assert "reads data in train, read_records_0; did you mean 'train'?" in told
    told = fails(program, "--data", "nowhere.rec", cwd=tmp_path)
    assert "nowhere.rec" in told


def test_data_of_one_loop_are_not_those_of_another(data: Path, tmp_path: Path) -> None:
    build(data, tmp_path / "two.opstep", test_passes=5)
    told = fails("two.opstep", "--data", "train.rec", cwd=tmp_path)
    assert "(op #" in told and "read_records_1" in told
    done = command(
        "two.opstep", "--data", "train.rec", "--data", "test=train.rec", "--out", "out",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.match(r"535 iterations in .* loss [\d.]+, mean [\d.-]+\n", done.stderr)


def test_python_data_are_not_here(tmp_path: Path) -> None:
    main, startup = opstep.Program("main"), opstep.Program("startup")
    with opstep.program_guard(main, startup):
        batches = readers.from_arrays({"x": np.ones((8, 2), np.float32)}, batch=4)
        with batches.iterate() as (x,):
            layers.mean(x)
    opstep.merge(startup, main).save(tmp_path / "python.opstep")
    told = fails("python.opstep", "--allow-files", "--out", "x", cwd=tmp_path)
    assert "its data come from Python code that this process does not have" in told
