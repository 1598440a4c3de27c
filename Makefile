# A fresh machine needs Python 3.11 or newer and make; everything else is installed into .venv.
PYTHON ?= python3
SEEDS ?= 10000
SECONDS ?= 600
BACKEND ?=
JOBS ?= 200000
KILLS ?= 50
# Tests wait for servers and disks more than they compute, so there are more of them than cores.
WORKERS ?= 4

VENV := .venv
BIN := $(VENV)/bin
AZURITE := tests/servers/azurite
CODE := $(wildcard src tests bench examples)

# uv does not read pip's configuration; a machine whose pip has a mirror has it for uv too.
# Looked up when a recipe runs and written nowhere.
PIP_INDEX = $(BIN)/python -m pip config list | sed -nE "s/^(:env:|global)\.index-url='(.*)'$$/\2/p" | head -n 1
UV = index="$${UV_DEFAULT_INDEX:-$$($(PIP_INDEX))}"; \
	$${index:+env UV_DEFAULT_INDEX="$$index"} $(BIN)/uv --no-config
COMPILE = $(UV) pip compile --universal --generate-hashes \
	--no-emit-index-url --custom-compile-command "make lock" --quiet $(ARGS)

# Tests and benchmarks start hundreds of processes. Where none may write what it has compiled, each
# would compile all it imports anew.
PRECOMPILE = $(BIN)/python -m compileall -q $(CODE) -x node_modules

.DEFAULT_GOAL := help
.PHONY: help setup demo test proof check bench sim soak format lock clean

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed $(AZURITE)/node_modules/.installed ## install everything that is needed, as locked

demo: setup ## see the queue at work
	$(BIN)/penstock demo $(ARGS)

test: setup ## run all tests; ARGS="-k lease" picks some, ARGS="-m 'not slow'" the quick ones
	@$(PRECOMPILE)
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup $(ARGS)

proof: setup ## the tables of Spark against a recount, at length; JOBS=200000 KILLS=50
	PENSTOCK_PROOF_JOBS=$(JOBS) PENSTOCK_PROOF_KILLS=$(KILLS) $(BIN)/pytest tests/pipeline/test_tables.py $(ARGS)

check: setup ## formatting, lint, imports between layers, types
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/lint-imports --no-logo
	$(BIN)/mypy $(CODE)

bench: setup ## measure
	@$(PRECOMPILE)
	$(BIN)/python -m bench $(ARGS)

sim: setup ## run the simulation, SEEDS=10000 of them
	$(BIN)/python -m penstock.testing.simulation --seeds $(SEEDS) $(ARGS)

soak: setup ## faults against real servers, counted exactly; SECONDS=600 BACKEND=redis,postgres
	$(BIN)/python -m tests.soak --seconds $(SECONDS) --backend "$(BACKEND)" $(ARGS)

format: setup ## format, fix what can be fixed, and write anew what is written from the code
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)
	$(BIN)/python -m tests.client.blocking_stub

lock: $(BIN)/uv ## resolve the dependencies again; ARGS=--upgrade for newer ones
	@$(COMPILE) --python-version 3.11 --group bootstrap --output-file requirements/bootstrap.txt
	@$(COMPILE) --python-version 3.11 pyproject.toml --all-extras --group dev --output-file requirements/dev.txt
	@$(COMPILE) --python-version 3.12 requirements/rivals.in --output-file requirements/rivals.txt
	cd $(AZURITE) && PATH="$$PATH:$(CURDIR)/$(BIN)" npm install --package-lock-only

clean: ## remove everything that was made
	rm -rf $(VENV) .venv-rivals bench/results $(AZURITE)/node_modules build dist .hypothesis .import_linter_cache .mypy_cache \
		.pytest_cache .ruff_cache
	find $(CODE) -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/uv: requirements/bootstrap.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "penstock needs Python 3.11 or newer: make PYTHON=python3.12")'
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/bootstrap.txt
	@touch $@

$(VENV)/.installed: $(BIN)/uv requirements/dev.txt pyproject.toml
	@$(UV) pip sync --python $(BIN)/python --compile-bytecode --require-hashes requirements/dev.txt
	@$(UV) pip install --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

# The machine's own Node if there is one, else the one in .venv.
$(AZURITE)/node_modules/.installed: $(AZURITE)/package-lock.json $(AZURITE)/.npmrc | $(VENV)/.installed
	cd $(AZURITE) && PATH="$$PATH:$(CURDIR)/$(BIN)" npm ci
	@touch $@
