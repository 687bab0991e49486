# `make` lists the targets. Every target that needs the environment makes it first.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOCK := deploy/requirements/test.txt
STAMP := $(VENV)/.installed
# Two cores is the machine we promise to fit. Most tests wait for programs they started, not for a
# core, so four of them at a time finish sooner than two.
WORKERS ?= 4

.PHONY: help install demo test cover lint types check bench quality fuzz clients soak life socketfuzz lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## make .venv from the lock file

$(STAMP): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Choragos needs Python 3.11 or newer; this is %s. Set PYTHON=/path/to/python3.11." % sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked packages into $(VENV) (a minute or two, once)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(LOCK)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: install ## the whole story, checked, in half a minute (KEEP=1 leaves the session up)
	@$(BIN)/choragos demo $(if $(KEEP),--keep)

lint: install ## ruff, formatting and style
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: install ## mypy --strict on the three packages
	@$(BIN)/mypy

test: lint types ## lint, types and every test
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not bench" $(ARGS)

cover: install ## every test, and which lines and branches it reached (two thirds slower)
	@$(BIN)/coverage erase
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --cov --cov-report=term -m "not bench" $(ARGS)

bench: install ## speed and size, as ratios against a peer in the same run
	@$(BIN)/python -m pytest -m bench -p no:xdist -p no:cacheprovider -s -q tests/bench $(ARGS)

quality: install ## what the rules find and hit in vain, beside stock Presidio
	@$(BIN)/python tests/bench/quality.py

fuzz: install ## 20,000 mutated bodies for each format, through the scanner (BODIES=n)
	@FUZZ_BODIES=$(or $(BODIES),20000) $(BIN)/python -m pytest -n 2 -p no:cacheprovider -q tests/gateway/test_coverage_fuzz.py $(ARGS)

clients: install ## the real agent clients, also those that are not in every run (CLIENTS=all)
	@CLIENTS=all $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -p no:cacheprovider -q -m client tests/e2e $(ARGS)

soak: install ## ten minutes of mixed load while scanning workers are killed (SECONDS=n)
	@SOAK_SECONDS=$(or $(SECONDS),600) $(BIN)/python -m pytest -p no:xdist -p no:cacheprovider -q tests/faults/test_gateway_soak.py $(ARGS)

life: install ## a day of a team in minutes: 5,000 delegations, crashes of everything (DELEGATIONS=n)
	@LIFE_DELEGATIONS=$(or $(DELEGATIONS),5000) $(BIN)/python -m pytest -p no:cacheprovider -q -s tests/faults/test_deck_life.py $(ARGS)

socketfuzz: install ## 20,000 hostile exchanges with the control socket (CASES=n)
	@SOCKET_FUZZ_CASES=$(or $(CASES),20000) $(BIN)/python -m pytest -p no:cacheprovider -q -s tests/faults/test_deck_socket_fuzz.py $(ARGS)

lock: ## renew the two lock files (needs uv on PATH)
	@uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --upgrade -q pyproject.toml -o deploy/requirements/run.txt
	@uv pip compile --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 --upgrade -q --extra test pyproject.toml -o deploy/requirements/test.txt

clean: ## remove what the targets made
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* dist build
