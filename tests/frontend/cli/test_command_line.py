"""`opstep run` and `opstep show` as processes."""

from __future__ import annotations

import argparse
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import opstep
from harness.patience import SECONDS
from opstep import layers, ops
from opstep.cli.main import parser
from opstep.show.dot import dot
from opstep_server.cli.app.command_line import EXECUTOR_COMMANDS
from opstep_server.wire import program_pb2

OPSTEP = [sys.executable, "-m", "opstep_server"]
X = np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5)


def command(*args: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    words = [*OPSTEP, *map(str, args)]
    return subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=SECONDS)


def fails(*args: object, code: int = 1) -> str:
    """The one sentence on stderr."""
    done = command(*args)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    if code == 1:
        assert re.fullmatch(r"opstep: [^\n]+\n", done.stderr), done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A trained net: as a model, as programs, as a checkpoint; and values to feed."""
    home = tmp_path_factory.mktemp("files")
    main, startup, scope = opstep.Program("main"), opstep.Program("startup"), opstep.Scope()
    with opstep.program_guard(main, startup), opstep.scope_guard(scope):
        x = layers.data("x", shape=[None, 5])
        label = layers.data("label", shape=[None, 1], dtype="int64")
        with opstep.name_scope("net"):
            scores = layers.fc(x, size=3, name="out")
        loss = layers.mean(layers.softmax_with_cross_entropy(scores, label), name="loss")
        opstep.optimizer.SGD(learning_rate=0.1).minimize(loss)
        opstep.Executor().run(startup)
        opstep.save_model(home / "model", [x], [scores], main)
        opstep.save_checkpoint(home / "all.safetensors", main)
        (want,) = opstep.Executor().run(main.prune([scores]), {"x": X}, [scores.name])
    main.save(home / "main.opstep")
    startup.save(home / "startup.opstep")
    np.save(home / "x.npy", X)
    np.save(home / "wrong.npy", X.astype(np.float64))
    np.save(home / "narrow.npy", X[:, :4])
    np.save(home / "want.npy", want)
    yield home


# --- run ----------------------------------------------------------------------------------------


def test_a_merged_program_needs_nothing_else(files: Path, tmp_path: Path) -> None:
    main, startup = (opstep.Program.load(files / f"{n}.opstep") for n in ("main", "startup"))
    opstep.merge(startup, main).save(tmp_path / "merged.opstep")
    options = ["--random", "--fetch", "loss.out", "--fetch", "net/out.w"]
    apart = command("run", files / "main.opstep", "--startup", files / "startup.opstep", *options)
    merged = command("run", tmp_path / "merged.opstep", *options)
    assert merged.stdout == apart.stdout and merged.returncode == 0
    # Values that are given are not replaced by the first ones.
    values = load_file(files / "all.safetensors")
    save_file({"net/out.w": values["net/out.w"] + 5}, tmp_path / "params.safetensors")
    options += ["--params", str(tmp_path / "params.safetensors")]
    apart = command("run", files / "main.opstep", "--startup", files / "startup.opstep", *options)
    given = command("run", tmp_path / "merged.opstep", *options)
    assert given.stdout == apart.stdout != merged.stdout and given.returncode == 0


def test_a_model_is_run(files: Path, tmp_path: Path) -> None:
    want = np.load(files / "want.npy")
    shown = command("run", files / "model", "--feed", f"x={files / 'x.npy'}")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith("net/out.out float32[2, 3] =\n[[")
    assert f"{want[0, 0]:.6f}"[:7] in shown.stdout
    saved = command(
        "run", files / "model", "--feed", f"x={files / 'x.npy'}", "--out", tmp_path / "o"
    )
    assert saved.stdout == f"{tmp_path / 'o' / 'net_out.out.npy'}: float32[2, 3]\n"
    np.testing.assert_array_equal(np.load(tmp_path / "o" / "net_out.out.npy"), want)


def test_random_feeds_repeat(files: Path) -> None:
    done = command("run", files / "model", "--random", "--batch", "4", "--repeat", "50")
    assert done.returncode == 0
    assert done.stdout.startswith("net/out.out float32[4, 3] =")
    ms = r"[\d.e+-]+ ms"
    assert re.fullmatch(
        rf"50 runs in [\d.e+-]+ s; the first took {ms}, the others {ms} on average "
        rf"\(p50 {ms}, p99 {ms}\): [\d,]+ runs/s\n",
        done.stderr,
    )
    again = command("run", files / "model", "--random", "--batch", "4")
    other = command("run", files / "model", "--random", "--batch", "4", "--seed", "1")
    assert again.stdout == done.stdout != other.stdout


def test_sequences_of_different_lengths(tmp_path: Path) -> None:
    main = opstep.Program("main")
    with opstep.program_guard(main, opstep.Program()):
        x = layers.data("x", shape=[None, 2], lod_level=1)
        out = layers.relu(x, name="out")
        layers.sequence_pool(out, "sum", name="sums")
    main.save(tmp_path / "main.opstep")
    np.save(tmp_path / "x.npy", np.ones((4, 2), np.float32))
    np.save(tmp_path / "offsets.npy", np.array([0, 1, 4]))
    np.save(tmp_path / "wrong.npy", np.array([0, 5, 4]))
    given = ["run", tmp_path / "main.opstep", "--feed", f"x={tmp_path / 'x.npy'}"]
    done = command(
        *given, "--feed", f"x@offsets={tmp_path / 'offsets.npy'}",
        "--fetch", "out.out", "--fetch", "sums.out", "--out", tmp_path / "out",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "out" / "out.out@offsets.npy").tolist() == [0, 1, 4]
    assert np.load(tmp_path / "out" / "sums.out.npy").tolist() == [[1, 1], [3, 3]]
    assert "'x@offsets' must be fed: it is int64[?]; give --feed x@offsets=FILE" in fails(*given)
    wrong = fails(*given, "--feed", f"x@offsets={tmp_path / 'wrong.npy'}")
    assert "cannot feed 'x': offsets must not fall: offsets[2] is 4 after 5" in wrong
    random = command(*given[:2], "--random", "--batch", "3", "--fetch", "sums.out")
    assert random.stdout.startswith("sums.out float32[3, 2] =")


def test_a_program_is_trained(files: Path) -> None:
    options = ["--random", "--batch", "8", "--fetch", "loss.out"]
    startup = ["--startup", files / "startup.opstep"]
    once = command("run", files / "main.opstep", *startup, *options)
    often = command("run", files / "main.opstep", *startup, *options, "--repeat", "200")
    first, last = (float(done.stdout.split("=")[1]) for done in (once, often))
    assert last < first
    begun = command("run", files / "main.opstep", "--params", files / "all.safetensors", *options)
    assert begun.stdout == once.stdout


def test_a_program_that_gives_nothing(files: Path) -> None:
    done = command("run", files / "startup.opstep")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "ran 'startup' once; --fetch NAME shows a variable\n"


def test_a_script_is_run_as_python_would(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("there = 1\n")
    # Not ours, though it is called so and lies where we are.
    (tmp_path / "opstep.py").write_text("raise SystemExit('wrong opstep')\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import beside, sys\nprint(sys.argv[1:], __name__, sys.path[0])\nsys.exit(7)\n"
    )
    done = command("run", "script.py", "--repeat", "x", "--help", cwd=tmp_path)
    assert (done.stdout, done.returncode) == (
        f"['--repeat', 'x', '--help'] __main__ {tmp_path}\n",
        7,
    ), done.stderr


def test_signals_reach_a_script(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import time\nprint('here', flush=True)\ntime.sleep(600)\n")
    process = subprocess.Popen(
        [*OPSTEP, "run", str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None and process.stdout.readline() == b"here\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(SECONDS) == -signal.SIGTERM
    process.stdout.close()


def test_ctrl_c_tells_how_far_it_came(files: Path) -> None:
    words = [*OPSTEP, "run", str(files / "model"), "--random", "--repeat", "1000000000"]
    master, slave = pty.openpty()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=slave, text=True)
    os.close(slave)
    shown = b""
    while b"runs/s" not in shown:  # the bar: stderr is a terminal
        shown += os.read(master, 1000)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=SECONDS)
    until = time.monotonic() + SECONDS
    while b"on average" not in shown and time.monotonic() < until:
        shown += os.read(master, 1000)
    os.close(master)
    assert process.returncode == 130
    assert out.startswith("net/out.out float32[1, 3] =")
    text = shown.decode()
    assert "running" in text and "/1000000000" in text
    assert re.search(r"interrupted; [\d,]+ runs in", text)


# --- run: what goes wrong -----------------------------------------------------------------------


def test_wrong_feeds(files: Path) -> None:
    model = files / "model"
    missing = fails("run", model)
    assert "'x' must be fed: it is float32[?, 5]; give --feed x=FILE.npy, or --random" in missing
    assert "did you mean 'x'?" in fails("run", model, "--feed", f"xx={files / 'x.npy'}")
    wrong = fails("run", model, "--feed", f"x={files / 'wrong.npy'}")
    assert "cannot feed 'x': it is float32 but the value is float64" in wrong
    narrow = fails("run", model, "--feed", f"x={files / 'narrow.npy'}")
    assert "cannot feed 'x': its shape is [?, 5] but the value's is [2, 4]" in narrow
    assert "No such file" in fails("run", model, "--feed", "x=nowhere.npy")
    assert "is not a .npy file" in fails("run", model, "--feed", f"x={files / 'main.opstep'}")
    assert "write NAME=FILE.npy" in fails("run", model, "--feed", "x", code=2)
    assert "not a whole number of 1 or more" in fails("run", model, "--repeat", "0", code=2)
    assert "has no such variable; did you mean" in fails(
        "run", model, "--random", "--fetch", "net/out.oot"
    )


def test_parameters_without_values(files: Path) -> None:
    said = fails("run", files / "main.opstep", "--random")
    assert "has no value yet: give the program that fills it with --startup FILE" in said
    said = fails("run", files / "main.opstep", "--random", "--params", files / "nowhere")
    assert "No such file" in said


def test_broken_models_and_programs(files: Path, tmp_path: Path) -> None:
    assert "cannot read 'nowhere.opstep': No such file" in fails("run", "nowhere.opstep")
    assert "there is no script 'nowhere.py'" in fails("run", "nowhere.py")
    assert "model.json': No such file" in fails("run", tmp_path)
    data = (files / "main.opstep").read_bytes()
    cut = tmp_path / "cut.opstep"
    cut.write_bytes(data[: len(data) // 2])
    said = fails("run", cut)
    assert "this is not an opstep program, or a part of it is missing" in said
    assert said.replace("run", "show") == fails("show", cut)
    model = tmp_path / "model"
    shutil.copytree(files / "model", model)
    (model / "params.safetensors").unlink()
    assert "params.safetensors': No such file" in fails("run", model, "--random")
    assert command("show", model).stdout == command("show", files / "model").stdout != ""


def test_block_indexes_that_lead_nowhere(tmp_path: Path) -> None:
    program = opstep.Program("loop")
    with opstep.program_guard(program, opstep.Program()):
        i, end = layers.fill([], 0.0), layers.fill([], 3.0)
        going = layers.less_than(i, end)
        with layers.While(going).block():
            layers.increment(i)
            layers.less_than(i, end, out=going)
    path = tmp_path / "bad.opstep"
    for index, rule in [(0, "block-index"), (2, "block-index"), (-1, "block-index")]:
        desc = program_pb2.ProgramDesc.FromString(program.to_bytes())
        (attr,) = [a for a in desc.blocks[0].ops[-1].attrs if a.WhichOneof("value") == "block"]
        attr.block = index
        path.write_bytes(desc.SerializeToString())
        assert f"rule {rule})" in fails("run", path)
    for parent in (1, 7):
        desc = program_pb2.ProgramDesc.FromString(program.to_bytes())
        desc.blocks[1].parent = parent
        path.write_bytes(desc.SerializeToString())
        assert "(block 1, rule block-tree)" in fails("show", path)


def test_an_op_that_fails(tmp_path: Path) -> None:
    program = opstep.Program("p")
    with opstep.program_guard(program, opstep.Program()):
        ops.load(path=str(tmp_path / "gone.npy"), shape=[2])
    program.save(tmp_path / "p.opstep")
    said = fails("run", tmp_path / "p.opstep", "--allow-files")
    assert re.search(
        r"\[load\] cannot read '.*gone.npy': No such .* \(test_command_line.py:\d+", said
    )


def test_a_program_touches_files_only_when_it_is_trusted(tmp_path: Path) -> None:
    program, written = opstep.Program("p"), tmp_path / "written.npy"
    with opstep.program_guard(program, opstep.Program()):
        ops.save(layers.fill([2], 1.0), path=str(written))
    program.save(tmp_path / "p.opstep")
    said = fails("run", tmp_path / "p.opstep")
    assert "reads or writes files by itself" in said and "--allow-files" in said
    assert not written.exists()
    assert command("run", tmp_path / "p.opstep", "--allow-files").returncode == 0
    assert written.exists()


def test_a_program_reads_data_only_when_it_is_trusted(tmp_path: Path) -> None:
    program = opstep.Program("p")
    with opstep.program_guard(program, opstep.Program()):
        ops.read_csv(paths=[str(tmp_path / "secret.csv")])
    program.save(tmp_path / "p.opstep")
    said = fails("run", tmp_path / "p.opstep")
    assert "read_csv_0" in said and "--allow-files" in said


# --- show ---------------------------------------------------------------------------------------


def test_a_model_is_shown(files: Path) -> None:
    done = command("show", files / "model")
    assert (done.returncode, done.stderr) == (0, "")
    program, _, _ = opstep.load_model(files / "model", opstep.Scope())
    assert done.stdout == (
        "feeds:      x float32[?, 5]\n"
        "fetches:    net/out.out float32[?, 3]\n"
        "parameters: 18 numbers in 2 tensors\n\n"
        f"{str(program).rstrip()}\n"
    )
    plain = command("show", files / "main.opstep")
    assert plain.stdout == str(opstep.Program.load(files / "main.opstep")).rstrip() + "\n"
    tensors = command("show", files / "all.safetensors").stdout.splitlines()
    assert "net/out.b        float32[3]" in tensors
    assert command("show", files / "x.npy").stdout == "float32[2, 5]\n"


def test_show_runs_nothing(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("open('made', 'w')\n")
    said = fails("show", script)
    assert "is a script, and show runs nothing: save a program in it with" in said
    assert not (tmp_path / "made").exists()


def test_a_picture(files: Path) -> None:
    done = command("show", files / "model", "--dot")
    assert (done.returncode, done.stderr) == (0, "")
    program, _, fetches = opstep.load_model(files / "model", opstep.Scope())
    assert done.stdout == dot(program, fetches)
    lines = done.stdout.splitlines()
    parameter = next(line for line in lines if "net/out.w" in line and "label" in line)
    assert "fillcolor" in parameter and "float32[5, 3]" in parameter
    assert any("->" in line and "float32[?, 3]" in line for line in lines)


def test_a_picture_with_blocks_and_awkward_names() -> None:
    program = opstep.Program('p"; evil [label="x\\')
    with opstep.program_guard(program, opstep.Program()):
        i = ops.fill(shape=[], value=0.0, out='a "b"\\n<c>')
        end = layers.fill([], 3.0)
        going = layers.less_than(i, end)
        with layers.While(going).block():
            layers.increment(i)
            layers.less_than(i, end, out=going)
    text = dot(program)
    assert "subgraph cluster_1" in text
    # Outside of quoted strings stands only what is ours.
    bare = re.sub(r'"(\\.|[^"\\])*"', "", text)
    assert "evil" not in bare and bare.count("{") == bare.count("}") == 2


def test_help_and_wrong_words() -> None:
    top = command("--help")
    assert re.search(r"run +run a script", top.stdout) and re.search(r"show +print", top.stdout)
    for name in ("run", "show", "records"):
        shown = command(name, "--help")
        assert shown.returncode == 0 and "examples:\n" in shown.stdout
    assert "the following arguments are required: FILE" in fails("run", code=2)
    assert "a script comes first" in fails("run", "--random", "train.py", code=2)
    assert "unrecognized arguments: --nope" in fails("show", "x", "--nope", code=2)


def test_the_reference_is_up_to_date(root: Path) -> None:
    words = [sys.executable, str(root / "tools" / "gen_cli_docs.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_command_lists_what_the_package_offers() -> None:
    (commands,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert {c.dest: c.help for c in commands._choices_actions} == EXECUTOR_COMMANDS


def test_nobody_reads_what_show_says(files: Path) -> None:
    script = f"{' '.join(OPSTEP)} show {files / 'main.opstep'} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.stderr == "" and done.returncode in (0, 141)
