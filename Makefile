# Every target sets itself up: a virtual environment in .venv with the pinned requirements.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin

.PHONY: test test-all lint types unit unit-all demo reproduce bench browser docs links fuzz test-lowest test-wheel dist clean

# The tests of minutes, and all of them: kills, clusters, browsers, reproductions, and code that takes long to compile
# are marked slow. mypy, one process on one core, checks while tests run.
test: lint
	$(MAKE) --no-print-directory -j 2 types unit

test-all: lint
	$(MAKE) --no-print-directory -j 2 types unit-all

$(READY): requirements.txt requirements-data.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-data.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# Two processes with one thread of BLAS each: with two each they wait for one another. A file is one process's, else
# both compile the same rules; tests/conftest.py puts those that take long first.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
unit: $(READY)
	$(PYTEST) -m "not slow"

unit-all: $(READY)
	$(PYTEST)

demo: $(READY)
	$(BIN)/gradtd demo --plot demo.png

reproduce: $(READY)
	$(BIN)/gradtd reproduce --runs 100 --out reproduction

bench: $(READY)
	$(BIN)/python benchmarks/bench.py

# The site, in build/site: every warning is an error, and every link inside it must lead somewhere.
docs: $(VENV)/.docs
	rm -rf build/site build/made docs/reference/generated
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site
	$(BIN)/python docs/links.py build/site

# Addresses elsewhere, for a machine with a network.
links: $(VENV)/.docs
	$(BIN)/python -m sphinx -q -b linkcheck docs build/links

$(VENV)/.docs: $(READY) requirements-docs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	touch $@

# Mutated streams, saved files, logs and command lines; some minutes, and COUNT=100000 takes longer.
COUNT ?= 10000
SEED ?= 0
fuzz: $(READY)
	$(BIN)/python fuzz/run.py --count $(COUNT) --seed $(SEED)

# The lowest versions that pyproject allows, and the wheel made from the sdist, each in an empty environment.
test-lowest: $(READY)
	$(BIN)/python tests/packages/installed.py lowest --python $(PYTHON)

test-wheel: $(READY)
	$(BIN)/python tests/packages/installed.py wheel --python $(PYTHON)

# The sdist and the wheel that a release publishes, checked, in dist/.
dist: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build==1.6.1 twine==7.0.0
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/python -m twine check --strict dist/*

# What the tests in a real browser need; without it they are skipped.
browser: $(READY)
	sh tests/paper/lab/install.sh $(BIN)/python

clean:
	rm -rf $(VENV) build dist src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +
