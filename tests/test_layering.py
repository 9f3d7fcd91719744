"""The layering rules of ARCHITECTURE.md, as tests: who may know whom, and what stands where."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXECUTOR = ROOT / "executor"
FRONTEND = EXECUTOR / "opstep"
SERVER = ROOT / "debug_server" / "opstep_server"
RUN_LOOP = EXECUTOR / "runtime" / "run.cc"
SCREEN = 60  # lines
OPS = EXECUTOR / "ops"
# Folders of executor/ops that hold what ops of several themes share; all others are themes.
SHARED = {"lib", "grad"}
MOST_FILES = 40  # side by side in a folder

# folder → the folders whose headers it may include, beside its own.
MAY_KNOW: dict[str, set[str]] = {
    "base": set(),
    "data": {"base"},
    "ir": {"base"},
    "ops": {"base", "data", "ir"},
    "passes": {"base", "ir", "ops"},
    "plan": {"base", "ir", "ops"},
    "runtime": {"base", "ir", "ops", "passes", "plan"},
    "debug": {"base", "ir", "ops", "plan", "runtime"},
    "opstep": {"base", "data", "ir", "ops", "passes", "plan", "runtime", "debug"},
}
WIRE_HEADERS = {"debug.pb.h", "debug.grpc.pb.h"}


# --- reading sources ----------------------------------------------------------------------------


def cpp_files(folder: Path = EXECUTOR) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.suffix in {".cc", ".h"})


def includes(path: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', path.read_text(), re.MULTILINE)


def without_comments(code: str) -> str:
    """C++ with comments blanked, line numbers kept; string literals are left alone."""
    token = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)

    def blank(match: re.Match[str]) -> str:
        text = match.group()
        return text if text.startswith('"') else "\n" * text.count("\n")

    return token.sub(blank, code)


def literals(path: Path) -> list[str]:
    """The string literals of a C++ or Python file."""
    if path.suffix != ".py":
        return re.findall(r'"((?:\\.|[^"\\\n])*)"', without_comments(path.read_text()))
    nodes = ast.walk(ast.parse(path.read_text()))
    return [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]


def python_files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*.py") if "wire" not in p.relative_to(folder).parts)


def imported_modules(path: Path) -> Iterator[str]:
    """Absolute names of the modules a Python file imports, anywhere in it."""
    package = ".".join(path.relative_to(SERVER.parent).parent.parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            module = importlib.util.resolve_name(name, package)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            yield from (a.value for a in node.args if isinstance(a, ast.Constant))


def below(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def where(path: Path) -> str:
    return str(path.relative_to(ROOT))


# --- C++ ----------------------------------------------------------------------------------------


def test_every_folder_of_the_executor_has_its_rule() -> None:
    folders = {p.relative_to(EXECUTOR).parts[0] for p in cpp_files()}
    assert folders <= set(MAY_KNOW), f"no rule for executor/{folders - set(MAY_KNOW)}"


@pytest.mark.parametrize("folder", MAY_KNOW)
def test_includes_point_left_only(folder: str) -> None:
    wrong = [
        f"{where(path)} includes {header}"
        for path in cpp_files(EXECUTOR / folder)
        for header in includes(path)
        if header.split("/")[0] in MAY_KNOW.keys() - MAY_KNOW[folder] - {folder}
    ]
    assert not wrong, "\n".join(wrong)


def test_includes_are_written_from_the_executor_folder() -> None:
    """`../ir/view.h` would slip past the rule above."""
    wrong = [
        f"{where(path)} includes {header}"
        for path in cpp_files()
        for header in includes(path)
        if header.startswith((".", "executor/"))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_wire_is_known_to_debug_only() -> None:
    wrong = [
        f"{where(path)} includes {header}"
        for path in cpp_files()
        if EXECUTOR / "debug" not in path.parents
        for header in includes(path)
        if header in WIRE_HEADERS
    ]
    assert not wrong, "\n".join(wrong)


def test_one_cpp_file_knows_grpc() -> None:
    knows = {
        where(path)
        for path in cpp_files()
        if re.search(r"\bgrpc(pp)?\b", without_comments(path.read_text()))
    }
    assert knows == {"executor/debug/wire/channel.cc"}


def test_python_headers_stay_in_the_bindings() -> None:
    bindings = EXECUTOR / "opstep" / "bindings"
    wrong = [
        f"{where(path)} includes {header}"
        for path in cpp_files()
        if bindings not in path.parents
        for header in includes(path)
        if header.startswith("pybind11/") or header == "Python.h"
    ]
    assert not wrong, "\n".join(wrong)


def test_cpp_files_say_what_they_hold() -> None:
    """In their first line."""
    silent = [where(path) for path in cpp_files() if not path.read_text().startswith("// ")]
    assert not silent, "\n".join(silent)


# --- the run loop -------------------------------------------------------------------------------


@pytest.fixture
def run_loop() -> str:
    assert RUN_LOOP.is_file(), f"the run loop must stand in {where(RUN_LOOP)}"
    return without_comments(RUN_LOOP.read_text())


def loop_function(code: str) -> list[str]:
    """The lines of the function around the `for` or `while` over instructions: the longest one."""
    functions: list[list[str]] = []
    lines = code.splitlines()
    start: int | None = None
    for number, line in enumerate(lines):
        # Google style: a function at namespace level starts in column 0 and ends with `}` there.
        if start is None and re.match(r"[A-Za-z].*\(", line) and not line.startswith("namespace"):
            start = number
        elif start is not None and line.startswith("}"):
            functions.append(lines[start : number + 1])
            start = None
        elif start is not None and number == start + 1 and lines[start].endswith(";"):
            start = None
    loops = [f for f in functions if any(re.match(r"\s+(for|while)\b", line) for line in f)]
    assert loops, f"no function with a loop found in {where(RUN_LOOP)}"
    return max(loops, key=len)


def test_the_run_loop_fits_one_screen(run_loop: str) -> None:
    assert len(loop_function(run_loop)) <= SCREEN


def test_the_run_loop_has_no_conditional_compilation(run_loop: str) -> None:
    assert re.findall(r"^\s*#\s*(if\w*|el\w+)\b.*", run_loop, re.MULTILINE) == []


def test_the_run_loop_does_no_io(run_loop: str) -> None:
    headers = r"\w*stream|cstdio|stdio\.h|print|fcntl\.h|unistd\.h|sys/.*|filesystem"
    io = [h for h in includes(RUN_LOOP) if re.fullmatch(headers, h)]
    calls = re.findall(r"\b(?:std::c(?:out|err|log)|f?printf|fputs|fwrite|fopen)\b", run_loop)
    assert io + calls == []


# --- ops ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def op_types() -> list[str]:
    return list(importlib.import_module("opstep._core").op_types())


@pytest.fixture(scope="module")
def other_words() -> set[str]:
    """Names of slots and attributes."""
    schemas = importlib.import_module("opstep._core").ops()
    return {x["name"] for s in schemas for x in (*s["inputs"], *s["outputs"], *s["attrs"])}


def test_the_registry_has_ops(op_types: list[str]) -> None:
    assert op_types, "no op is registered: were the registrars linked in?"
    assert len(op_types) == len(set(op_types))


def files_naming(op_types: list[str], other_words: set[str]) -> dict[str, set[str]]:
    """op type → the files below executor/ with that string literal."""
    names: dict[str, set[str]] = {op: set() for op in op_types}
    # Tables of what the ops of other frameworks are in ours are not counted.
    tables = FRONTEND / "torch" / "lowering"
    python = [path for path in sorted(EXECUTOR.rglob("*.py")) if tables not in path.parents]
    sources = [*cpp_files(), *python]
    for path in sources:
        # A slot or attribute may be called like an op (`shape`): then only what makes ops counts.
        code = without_comments(path.read_text()) if path.suffix != ".py" else ""
        made = set(re.findall(r'\b(?:\w*Op(?:<[^>]*>)?|Emit|EmitGrad)\(\s*"([^"]+)"', code))
        values: set[str] = set()
        if OPS in path.parents:
            # So may a value of an attribute (`reduction == "add"`), and oracles are Python.
            oracles = " ".join(re.findall(r'R"\((.*?)\)"', code, re.DOTALL))
            values = set(re.findall(r'(?:== |StringAttr\("\w+", )"([^"]+)"', code))
            values |= set(re.findall(r'"(\w+)"', oracles))
        for op in names.keys() & ((set(literals(path)) - other_words - values) | made):
            names[op].add(where(path))
    return names


def test_an_op_is_named_in_one_file(op_types: list[str], other_words: set[str]) -> None:
    wrong = [
        f"{op}: {sorted(files)}"
        for op, files in files_naming(op_types, other_words).items()
        if len(files) != 1 or not min(files).startswith("executor/ops/")
    ]
    assert not wrong, "\n".join(wrong)


def test_the_run_loop_names_no_op(op_types: list[str], run_loop: str) -> None:
    assert set(literals(RUN_LOOP)) & set(op_types) == set()


def test_every_file_of_ops_registered_what_it_defines(op_types: list[str]) -> None:
    """A .cc with a header of its own holds helpers, registry.cc the registry, all others ops."""
    silent = []
    for path in sorted(OPS.rglob("*.cc")):
        defined = set(re.findall(r'\bOp\("([^"]+)"\)', without_comments(path.read_text())))
        holds_ops = path.name != "registry.cc" and not path.with_suffix(".h").exists()
        if defined - set(op_types) or (holds_ops and not set(literals(path)) & set(op_types)):
            silent.append(where(path))
    assert not silent, f"these files did not register their ops: {silent}"


def test_each_theme_of_ops_has_an_op() -> None:
    """Helpers alone belong to a theme that has ops, or to the shared folders."""
    for folder in sorted(p for p in OPS.iterdir() if p.is_dir() and p.name not in SHARED):
        code = "".join(without_comments(path.read_text()) for path in folder.glob("*.cc"))
        assert re.search(r'\bOp\w*(?:<\w+>)?\(\s*"', code), f"no op in {where(folder)}"


def test_themes_of_ops_do_not_know_each_other() -> None:
    """A theme includes its own headers and the shared ones; the shared ones include no theme's."""
    wrong = []
    for path in cpp_files(OPS):
        theme = path.relative_to(OPS).parts[0] if path.parent != OPS else ""
        for header in includes(path):
            folder = header.split("/")[1] if header.count("/") > 1 else ""
            if header.startswith("ops/") and folder not in SHARED | {"", theme}:
                wrong.append(f"{where(path)} includes {header}")
    assert not wrong, "\n".join(wrong)


# --- the debug server ---------------------------------------------------------------------------


def test_the_server_never_imports_the_executor() -> None:
    wrong = [
        f"{where(path)} imports {module}"
        for path in python_files(SERVER)
        for module in imported_modules(path)
        if below(module, "opstep")
    ]
    assert not wrong, "\n".join(wrong)


def test_the_executor_never_imports_the_server() -> None:
    wrong = [
        where(path)
        for path in sorted(EXECUTOR.rglob("*.py"))
        if re.search(r"^\s*(from|import)\s+opstep_server\b", path.read_text(), re.MULTILINE)
    ]
    assert not wrong, "\n".join(wrong)


def test_one_python_file_knows_grpc() -> None:
    knows = {
        where(path)
        for path in [*python_files(SERVER), *sorted(EXECUTOR.rglob("*.py"))]
        if re.search(r"^\s*(from|import)\s+grpc\b|_pb2_grpc\b", path.read_text(), re.MULTILINE)
    }
    assert knows == {"debug_server/opstep_server/transport.py"}


def test_dap_is_known_to_its_own_folder() -> None:
    """Only the command that starts the adapter may import it, and no one else speaks its words."""
    wrong = []
    for path in python_files(SERVER):
        if SERVER / "dap" in path.parents:
            continue
        if where(path) != "debug_server/opstep_server/cli/app/subcommands.py":
            imported = {m for m in imported_modules(path) if below(m, "opstep_server.dap")}
            wrong += [f"{where(path)} imports {module}" for module in sorted(imported)]
        words = {"Content-Length", "stackTrace", "setBreakpoints", "variablesReference"}
        spoken = words & set(literals(path))
        wrong += [f"{where(path)} says {word}" for word in sorted(spoken)]
    assert not wrong, "\n".join(wrong)


def test_the_faces_do_not_know_each_other() -> None:
    """CLI and DAP both call the Debugger; one must not grow on the other, nor it on them."""
    wrong = [
        f"{where(path)} imports {module}"
        for path in python_files(SERVER)
        if SERVER / "cli" not in path.parents and path != SERVER / "__main__.py"
        for module in imported_modules(path)
        if below(module, "opstep_server.cli")
    ]
    assert not wrong, "\n".join(wrong)


def test_both_faces_call_the_debugger() -> None:
    for face in ("cli", "dap"):
        called = {m for path in python_files(SERVER / face) for m in imported_modules(path)}
        assert "opstep_server.debugger.Debugger" in called


# --- files of the Python packages ---------------------------------------------------------------

PACKAGES = pytest.mark.parametrize("package", [FRONTEND, SERVER], ids=["opstep", "opstep_server"])


@PACKAGES
def test_modules_of_a_package_have_unique_names(package: Path) -> None:
    """A module and a folder must not share a name either: one of them could not be imported."""
    seen: dict[str, list[str]] = {}
    for path in python_files(package):
        if not path.name.startswith("__"):
            seen.setdefault(path.stem, []).append(where(path))
    twice = {name: paths for name, paths in seen.items() if len(paths) > 1}
    assert not twice
    hidden = [path for paths in seen.values() for path in paths if (ROOT / path[:-3]).is_dir()]
    assert not hidden


@PACKAGES
def test_every_python_file_says_what_it_holds(package: Path) -> None:
    silent = [
        where(path)
        for path in python_files(package)
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent


FOLDERS_WITH_MANY = pytest.mark.parametrize(
    ("folder", "suffixes"),
    [
        (EXECUTOR, {".py", ".pyi", ".cc", ".h"}),
        (SERVER, {".py"}),
        (ROOT / "tests" / "frontend", {".py"}),
        (ROOT / "tests" / "programs", {".py"}),
    ],
    ids=["executor", "opstep_server", "tests/frontend", "tests/programs"],
)


@FOLDERS_WITH_MANY
def test_folders_are_small(folder: Path, suffixes: set[str]) -> None:
    files = [p for p in folder.rglob("*") if p.suffix in suffixes and p.is_file()]
    assert files
    counts = Counter(path.parent for path in files if "wire" not in path.parent.parts)
    assert not {where(each): count for each, count in counts.items() if count > MOST_FILES}
