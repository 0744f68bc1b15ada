# Two commands on a fresh machine: `make demo` and `make test`. Each sets itself up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One BLAS thread per worker: two spinning pools on shared cores can be a hundred times slower.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
WORKERS ?= 2

.PHONY: demo test test-oldest check format bench tables clean

$(VENV)/.demo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[plot]"
	touch $@

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@ $(VENV)/.demo

.venv-oldest/.done: pyproject.toml tests/oldest-requirements.txt
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -e ".[test]" -c tests/oldest-requirements.txt
	touch $@

demo: $(VENV)/.demo  ## fit, evaluate and draw on embedded data
	$(ONE_THREAD) $(BIN)/python examples/demo.py

test: $(VENV)/.dev  ## the whole test suite
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q

test-oldest: .venv-oldest/.done  ## the suite on the oldest supported dependencies
	$(ONE_THREAD) .venv-oldest/bin/python -m pytest -n $(WORKERS) --dist worksteal -q

check: $(VENV)/.dev  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.dev  ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev  ## speed, as ratios measured in one run
	$(ONE_THREAD) $(BIN)/python -m benchmarks.speed
	$(ONE_THREAD) $(BIN)/python -m benchmarks.peers
	$(ONE_THREAD) $(BIN)/python -m benchmarks.order_speed

tables: $(VENV)/.dev  ## Tables 2 and 3 of Chu and Ghahramani beside ours (resumable)
	$(ONE_THREAD) $(BIN)/python -m benchmarks.gpor_tables --jobs $(WORKERS)

clean:  ## remove everything that make created
	rm -rf $(VENV) .venv-oldest .pytest_cache .mypy_cache .ruff_cache .hypothesis dist
