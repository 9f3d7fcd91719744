# All tasks of the project; `make help` lists the targets. Each does its own set-up.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PY := .venv/bin/python
STAMPS := build/stamps
PYTEST := $(PY) -m pytest
VSCODE := ide_plugins/vscode

# The sources of the extension and of the generated Python. Folders are listed too, so that a deleted
# file counts as a change.
NATIVE_DIRS := $(shell find proto executor/base executor/data executor/ir executor/ops executor/passes executor/plan \
  executor/runtime executor/debug executor/opstep/bindings -type d -not -name __pycache__ 2>/dev/null)
NATIVE := $(NATIVE_DIRS) $(shell find $(NATIVE_DIRS) -maxdepth 1 -type f \( -name '*.cc' -o -name '*.h' \
  -o -name '*.proto' -o -name CMakeLists.txt \) 2>/dev/null) \
  CMakeLists.txt executor/CMakeLists.txt $(wildcard tools/cmake/*) tools/ccache.sh tools/generate_wire.py
PROJECTS := pyproject.toml debug_server/pyproject.toml

# The tests run one after the other, the fast ones first, even with -j.
.NOTPARALLEL:
.PHONY: sanitize help build demo docs includes test-python pictures pictures-notebook pictures-vscode test test-fast test-cpp test-torch test-e2e test-emacs test-vscode fuzz lint format bench wheel vsix clean

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | awk -F'\t' '{printf "  make %-18s %s\n", $$1, $$2}'

# --- set-up -------------------------------------------------------------------------------------

# Otherwise make would delete them as intermediate files.
.PRECIOUS: $(STAMPS)/system-% $(STAMPS)/extra-%

$(STAMPS)/system-%: tools/setup_system.sh
	@mkdir -p $(STAMPS)
	@tools/setup_system.sh $*
	@touch $@

$(STAMPS)/venv: tools/setup_venv.sh $(PROJECTS) $(STAMPS)/system-build $(STAMPS)/system-python
	@tools/setup_venv.sh
	@touch $@

# The editable install remembers the file of each module, so it is made again when one is moved. The
# list of modules is written only when it has changed.
$(shell mkdir -p $(STAMPS); list=$$(find executor/opstep debug_server/opstep_server -name '*.py' \
  -not -path '*/wire/*' | sort); [[ $$list == "$$(cat $(STAMPS)/modules 2>/dev/null)" ]] || \
  echo "$$list" >$(STAMPS)/modules)

$(STAMPS)/editable: $(PROJECTS) tools/install.sh $(STAMPS)/modules $(STAMPS)/venv
	@tools/install.sh editable
	@touch $@

# Dated before the build, so that an edit during the build is not missed.
$(STAMPS)/install: $(NATIVE) $(STAMPS)/editable
	@start=$$(mktemp $@.XXXXXX); tools/install.sh native || { rm -f $$start; exit 1; }; mv $$start $@

# Extras of pyproject.toml (test, lint, bench), installed only when a target needs them.
$(STAMPS)/extra-%: pyproject.toml tools/requirements.py $(STAMPS)/venv
	@tools/pip.sh "Installing the Python packages for $*" install -r <($(PY) tools/requirements.py $*)
	@touch $@

build: $(STAMPS)/install ## Build everything into .venv (Debian packages, environment, extension)

# --- run ----------------------------------------------------------------------------------------

demo: build ## Train the digits model, then find a NaN in a batch debugging session
	@tools/demo.sh

# A failed test with real processes or editors is rerun and listed in the summary: it is a defect to find.
# Remove this when three whole runs in a row have needed no rerun.
AGAIN = --reruns 1 -rR
# Tests run in two processes; with --dist loadfile, tests of one file share a process, servers and folders.
TWO = -n 2
# Prints how long a recipe took, also after a failure.
TIMED = trap 'echo "$@ took $$((SECONDS / 60)) min $$((SECONDS % 60)) s"' EXIT;

test: docs includes test-fast test-torch test-e2e test-emacs test-vscode ## All tests, and the documentation's site

# Without servers, adapters, editors, and what takes long.
FAST = -m "not e2e and not vscode and not slow and not emacs and not torch"

test-fast: build $(STAMPS)/extra-test test-cpp ## Tests without servers, adapters or VS Code
	@$(TIMED) $(PYTEST) -q --durations=10 $(TWO) $(FAST) tests

test-cpp: build ## The C++ test programs
	@if compgen -G 'tests/cpp/*.cc' >/dev/null; then \
	  cmake --build build/cmake --target cpp_tests; \
	  ctest --test-dir build/cmake --output-on-failure --no-tests=error; \
	fi

# The oldest and the newest Python if none is named: make test-python PYTHONS="3.12".
test-python: ## The fast tests and those of names, with the wheels of other Pythons
	@$(MAKE) wheel PYTHONS="$(or $(PYTHONS),3.10 3.13)"
	@$(TIMED) for each in $(or $(PYTHONS),3.10 3.13); do \
	  tools/test_wheel.sh $$each $(TWO) $(FAST) tests; \
	  tools/test_wheel.sh $$each $(TWO) tests/e2e/names; \
	done

# Microsoft's test client for debug adapters.
$(STAMPS)/dap-client: tests/dap_client/package-lock.json $(STAMPS)/system-node
	@echo "Installing the debug adapter test client"
	@npm --prefix tests/dap_client run --silent deps
	@touch $@

test-e2e: build $(STAMPS)/extra-test $(STAMPS)/dap-client ## Tests with real processes
	@$(TIMED) $(PYTEST) -q $(AGAIN) --durations=10 $(TWO) --dist loadfile -m "(e2e or slow) and not vscode and not emacs and not torch" tests

test-torch: build $(STAMPS)/extra-test $(STAMPS)/extra-torch-test ## Tests of the PyTorch backend
	@$(TIMED) $(PYTEST) -q $(AGAIN) --durations=10 $(TWO) --dist loadfile -m torch tests

test-emacs: build $(STAMPS)/extra-test $(STAMPS)/system-emacs ## Tests in a real Emacs with dap-mode
	@$(TIMED) $(PYTEST) -q $(AGAIN) --durations=10 -m emacs tests

FUZZ_SECONDS ?= 60
fuzz: build $(STAMPS)/extra-test ## Run each fuzz test for FUZZ_SECONDS (60)
	@for each in programs edits names counted tap_kills tap_files dap_stream hostile_server; do \
	  echo "== $$each"; PYTHONPATH=tests $(PY) -m fuzz.$$each --seconds $(FUZZ_SECONDS); \
	done

test-vscode: build vsix $(STAMPS)/extra-test ## Tests in a real VS Code
	@bash tests/vscode/setup.sh
	@$(TIMED) $(PYTEST) -q $(AGAIN) --durations=10 $(TWO) -m vscode tests/vscode

pictures: build $(STAMPS)/extra-test ## Record the README's pictures of the terminal again
	@$(PY) tools/record_pictures.py

pictures-notebook: build $(STAMPS)/extra-test $(STAMPS)/system-browser ## Take the picture of a notebook again
	@$(PY) tools/notebook_picture.py

pictures-vscode: build vsix $(STAMPS)/extra-test ## Take the pictures of VS Code and of a log's page again
	@$(PYTEST) -q -k newest tests/vscode/pictures.py
	@$(PYTEST) -q tests/vscode/log_picture.py

docs: $(STAMPS)/extra-docs ## Build the documentation's site into build/site; broken links are errors
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs --quiet build --strict --clean
	@echo "Open build/site/index.html in a browser"

bench: build $(STAMPS)/extra-bench $(STAMPS)/system-bench ## Compare with the peers; one row: make bench ONLY=name
	@$(PY) bench/run.py $(if $(ONLY),--only $(ONLY))

# --- checks -------------------------------------------------------------------------------------

CPP_FILES = $(shell find executor tests/cpp -name '*.cc' -o -name '*.h' 2>/dev/null)

includes: build ## Compile each C++ file without precompiled headers: a forgotten include is an error
	@$(TIMED) nice tools/includes.sh

lint: build $(STAMPS)/extra-test $(STAMPS)/extra-lint ## Check style and types of Python, C++ and TypeScript
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@if [[ -d debug_server/opstep_server ]]; then $(PY) -m mypy debug_server/opstep_server; fi
	@if [[ -n "$(CPP_FILES)" ]]; then .venv/bin/clang-format --dry-run -Werror $(CPP_FILES); fi
	@if [[ -d $(VSCODE)/node_modules/typescript ]]; then cd $(VSCODE) && node_modules/.bin/tsc --noEmit -p .; fi

format: $(STAMPS)/extra-lint ## Rewrite Python and C++ in the project's style
	@$(PY) -m ruff check --fix-only -q .
	@$(PY) -m ruff format -q .
	@if [[ -n "$(CPP_FILES)" ]]; then .venv/bin/clang-format -i $(CPP_FILES); fi

# Each kind in build/sanitize-KIND; for one kind: make sanitize ONLY=thread.
sanitize: build ## C++ tests and a debugging session under address, undefined and thread sanitizers
	@tools/sanitize.sh $(ONLY)

# --- packages -----------------------------------------------------------------------------------

# PYTHONS="3.12 3.13": these only.
wheel: $(STAMPS)/venv $(STAMPS)/extra-wheel ## Build wheels for each Python found into dist/, and try each
	@$(TIMED) $(PY) tools/wheels.py $(PYTHONS)

vsix: $(VSCODE)/opstep.vsix ## Build the VS Code extension, ide_plugins/vscode/opstep.vsix

$(VSCODE)/opstep.vsix: tools/vsix.sh $(STAMPS)/system-node $(shell find $(VSCODE) -type f -not -path '*/node_modules/*' \
    -not -path '*/dist/*' -not -name '*.vsix' 2>/dev/null)
	@tools/vsix.sh
	@touch $@

clean: ## Remove build results (keeps .venv)
	@rm -rf build dist debug_server/opstep_server/wire $(VSCODE)/dist $(VSCODE)/opstep.vsix
	@find executor debug_server tests -name __pycache__ -type d -prune -exec rm -rf {} +
