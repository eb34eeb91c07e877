# `make help` lists the targets; each installs what it needs, from wheels, into .venv and .tools.

PY := .venv/bin/python
ROW ?=
PAGES := guarantees licences cli_reference error_table kinds_page payload_schema dag_schema task_states settings_page schema
SIZE ?=
SEED ?=
PYTEST_ARGS ?= -n 2 --dist loadgroup

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help setup demo up test quick proof check bench lock docs clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "make %-7s %s\n", $$1, $$2}' Makefile

setup: ## Make .venv from the locks, with nothing but Python and make
	@python=$$(PYTHON="$(PYTHON)" tools/find-python) && "$$python" tools/environment.py

demo: setup ## Run the guided demo on an embedded system
	@.venv/bin/tracelake demo

up: setup ## Start the embedded system and keep it running (Ctrl-C stops it)
	@.venv/bin/tracelake up

test: setup ## Run the tests at their daily size
	@.venv/bin/pytest -m "not proof" --durations=20 $(PYTEST_ARGS)

quick: setup ## Run the tests that need no database, no Spark and no system, in under three minutes
	@.venv/bin/pytest -q -m "not proof and not processes" -n 2 sdk/tests server/tests spark/tests tests/model tests/workspace

proof: setup ## Run the tests at their full size and from a clean clone; writes proof/report-*.md
	@PYTEST_ARGS="$(PYTEST_ARGS)" $(PY) tests/proof/run.py $(if $(SEED),--seed $(SEED))

check: setup ## Lint, types, import contracts, and whether generated pages are fresh
	@.venv/bin/ruff check .
	@.venv/bin/basedpyright
	@.venv/bin/lint-imports
	@for page in $(PAGES); do $(PY) -m tools.$$page --check || exit 1; done

bench: setup ## Run the benchmark (one row with ROW=tasks)
	@$(PY) -m bench $(ROW) $(if $(SIZE),--size $(SIZE))

docs: setup ## Write the generated pages again
	@for page in $(PAGES); do $(PY) -m tools.$$page || exit 1; done

lock: setup ## Resolve the dependencies into requirements.lock and tools/build.lock (newer ones with UPGRADE=1)
	@tools/lock $(if $(UPGRADE),--upgrade)

clean: ## Remove what the targets created here; homes of embedded systems stay
	@rm -rf .venv .tools .pytest_cache .ruff_cache .import_linter_cache .hypothesis
