# Every target installs what it needs into $(VENV), once, and again when pyproject.toml or constraints.txt change.
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Hundreds of processes import the package: its byte code is kept, whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install test soak lint format demo bench clean

help: ## Show this list
	@grep -E '^[a-z]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:[^#]*## /\t/' | expand -t 12

install: $(STAMP) ## Make the virtual environment

test: $(STAMP) ## Run the tests, without the long ones
	$(BIN)/pytest -m 'not soak' -n 3 --dist loadgroup --no-loadscope-reorder

soak: $(STAMP) ## Run all tests: the long ones too, many more examples of every law, and compiled code with checked bounds
	$(BIN)/pytest --hypothesis-profile=soak --timeout=3600
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/.numba-boundscheck $(BIN)/pytest -m 'not spark' --timeout=3600 tests/cases tests/laws

lint: $(STAMP) ## Check format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP) ## Rewrite the sources in the house format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

demo: $(STAMP) ## Run the demo
	$(BIN)/python -m hydrophone.apps.demo

bench: $(STAMP) ## Run the benchmarks
	$(BIN)/python -m hydrophone.bench

clean: ## Remove what these targets made, the virtual environment included
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The first Python that is new enough and can make a virtual environment; PYTHON=… on the command line overrides.
$(BIN)/python:
	@set -e; \
	for candidate in $(if $(PYTHON),"$(PYTHON)",python3.11 python3.12 python3.13 python3); do \
	  if $$candidate -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	    echo "==> $(VENV): made with $$candidate"; \
	    exec $$candidate -m venv $(VENV); \
	  fi; \
	done; \
	echo "error: no Python 3.11 or newer with the venv module was found" >&2; \
	echo "  Hint: install one, or name it: make PYTHON=/path/to/python3.11 ..." >&2; \
	exit 1

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	@echo "==> $(VENV): updating pip"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt pip
	@echo "==> $(VENV): installing hydrophone[dev] (Spark alone is about 450 MB: a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --build-constraint constraints.txt --editable '.[dev]'
	@touch $@
	@echo "==> $(VENV): ready"
