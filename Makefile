# `make demo` and `make test` set up all they need in .venv; everything else here is convenience.

SHELL := /bin/bash
# Warnings of the C compiler are errors here, but not where users install.
export REBLOCK_STRICT_BUILD := 1
.DEFAULT_GOAL := help
.NOTPARALLEL:

# The first interpreter that is new enough; `make PYTHON=... ` chooses another.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
# Processes that share the test run; 0 runs the tests in one.
WORKERS ?= 2
# Examples that each property gets under `make fuzz` (random jobs: half as many), seconds that each reader gets changed
# bytes, and what to pass on to pytest.
EXAMPLES ?= 2000
FUZZ_SECONDS ?= 600
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq
# A second environment: the newest Python that we support, with the newest release of every library.
NEWEST := .venv-newest
NEWEST_PYTHON ?= $(shell scripts/newest-python)

.PHONY: help demo test test-newest coverage lint format test-faults fuzz debian clean

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r name text; do printf 'make %-12s %s\n' "$$name" "$$text"; done

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV) || { \
		$(PYTHON) -m venv --clear --without-pip $(VENV) && \
		$(PYTHON) -m pip --python $(BIN)/python install -qq pip; }

# Python compiles modules at every start where PYTHONDONTWRITEBYTECODE is set; that doubles the time to start.
COMPILE = $(BIN)/python -m compileall -q src/reblock

# What is installed is remembered in stamps, so only what changes the build installs again.
BUILD := pyproject.toml hatch_build.py $(wildcard src/reblock/engine/native/*.[ch])
$(VENV)/.core: $(BUILD) | $(BIN)/python
	$(PIP) install --editable .
	$(COMPILE)
	@touch $@

$(VENV)/.dev: $(BUILD) | $(BIN)/python
	$(PIP) install --editable '.[dev]'
	$(COMPILE)
	@touch $(VENV)/.core $@

$(NEWEST)/.dev: $(BUILD)
	@test -n "$(NEWEST_PYTHON)" || { echo "the newest Python is not installed: make NEWEST_PYTHON=/path/to/it ..." >&2; exit 1; }
	$(NEWEST_PYTHON) -m venv --clear $(NEWEST)
	$(NEWEST)/bin/python -m pip --disable-pip-version-check -qq install --editable '.[dev]'
	@touch $@

demo: $(VENV)/.core ## make a sample array, repartition it, verify it, and print the report
	$(BIN)/reblock demo

# The summary of pytest stays the last line.
test: $(VENV)/.dev debian lint ## check style, types and layers, and run the tests
	$(BIN)/pytest -m 'not faults' --numprocesses=$(WORKERS) $(ARGS)

test-newest: $(NEWEST)/.dev debian ## run the quick tests on the newest Python, with the newest libraries
	$(NEWEST)/bin/pytest -m 'not slow and not faults' --numprocesses=$(WORKERS) $(ARGS)

coverage: $(VENV)/.dev debian ## run the tests and list what no test has run; takes half as long again
	$(BIN)/pytest -m 'not faults' --numprocesses=$(WORKERS) --cov --cov-report=term-missing:skip-covered $(ARGS)

lint: $(VENV)/.dev ## check style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev ## mend style where that can be done by a program
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test-faults: $(VENV)/.dev debian ## run only the tests that kill runs, make calls fail and read other projects' files
	$(BIN)/pytest -m faults $(ARGS)

fuzz: $(VENV)/.dev ## run the property tests with many more examples (EXAMPLES=2000, FUZZ_SECONDS=600)
	REBLOCK_EXAMPLES=$(EXAMPLES) REBLOCK_FUZZ_SECONDS=$(FUZZ_SECONDS) $(BIN)/pytest --numprocesses=$(WORKERS) -m 'not faults' --timeout=0 $(ARGS)

debian: ## install the Debian packages that tests use, where that is possible
	@scripts/debian-packages

clean: ## remove everything that these commands made
	rm -rf $(VENV) $(NEWEST) build dist .coverage .coverage.* htmlcov .mypy_cache .pytest_cache .ruff_cache \
		.hypothesis .import_linter_cache
	find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
