# Every target sets itself up: a virtual environment in .venv with the pinned requirements.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin

.PHONY: test lint types unit demo reproduce bench browser clean

test: lint types unit

$(READY): requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/python -m pytest -n 2

demo: $(READY)
	$(BIN)/gradtd demo --plot demo.png

reproduce: $(READY)
	$(BIN)/gradtd reproduce --runs 100 --out reproduction

bench: $(READY)
	$(BIN)/python benchmarks/bench.py

# What the tests in a real browser need; without it they are skipped.
browser: $(READY)
	sh tests/paper/lab/install.sh $(BIN)/python

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +
