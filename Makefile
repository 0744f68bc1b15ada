# Two commands on a fresh machine: `make demo` and `make test`. Each sets itself up.
VENV := .venv
OLDEST := .venv-oldest
ifeq ($(OS),Windows_NT)
    # That of Git for Windows: recipes are written for a Unix shell.
    SHELL := bash
    PYTHON ?= python
    SCRIPTS := Scripts
else
    PYTHON ?= python3
    SCRIPTS := bin
endif
BIN := $(VENV)/$(SCRIPTS)
# One BLAS thread per worker: two spinning pools on shared cores can be a hundred times slower.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
WORKERS ?= 2

.PHONY: demo test test-cpus test-numerics test-oldest check docs dist format bench asking tables pages peers clean

$(VENV)/.demo: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[plot,cli,report,tables]"
	touch $@

$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	touch $@

$(VENV)/.release: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[release]"
	touch $@

$(OLDEST)/.done: pyproject.toml tests/oldest-requirements.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/$(SCRIPTS)/python -m pip install --quiet --disable-pip-version-check -e ".[test]" -c tests/oldest-requirements.txt
	touch $@

demo: $(VENV)/.demo  ## fit, compare, predict and report on embedded data
	$(ONE_THREAD) $(BIN)/ordinalgp demo

test: $(VENV)/.dev  ## the whole test suite
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q

# Kinds of processor whose rounding is tried: OpenBLAS computes as if on each, and numpy without
# AVX-512. Choose some with `make test-cpus CPUS="Haswell Zen"`.
CPUS ?= Prescott Nehalem Haswell Zen SkylakeX no-AVX512
# numpy names what it uses by its version; what a processor lacks must not be named.
AVX512 := import numpy; found = numpy.show_config(mode="dicts")["SIMD Extensions"].get("found", []); \
    print(*[f for f in found if f.startswith(("AVX512", "X86_V4"))])
# Tests against oracles: engine, and estimators without scikit-learn's own checks.
NUMERICS := $(addprefix tests/,core gp least_squares many_rows preference collaborative sparse baselines) \
    -k "not scikit_learn_contract"

define each_cpu
@failed=; for cpu in $(CPUS); do \
    core=$$cpu; off=; needs=; \
    case $$cpu in \
        Haswell|Zen) needs=avx2;; \
        SkylakeX) needs=avx512f;; \
        no-AVX512) core=; off=$$($(BIN)/python -c '$(AVX512)');; \
    esac; \
    if [ -n "$$needs" ] && ! grep -qsw "$$needs" /proc/cpuinfo; then \
        echo "=== $$cpu: left out, as this processor has no $$needs"; continue; fi; \
    echo "=== $$cpu$${off:+: numpy without $$off}"; \
    env $${core:+OPENBLAS_CORETYPE=$$core} NPY_DISABLE_CPU_FEATURES="$$off" $(ONE_THREAD) \
        $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -q $(1) || failed="$$failed $$cpu"; \
done; \
if [ -n "$$failed" ]; then echo "=== failed:$$failed"; exit 1; fi
endef

test-cpus: $(VENV)/.dev  ## the whole suite with the rounding of each kind of processor
	$(call each_cpu)

test-numerics: $(VENV)/.dev  ## the tests against oracles with the same
	$(call each_cpu,$(NUMERICS))

test-oldest: $(OLDEST)/.done  ## the suite on the oldest supported dependencies
	$(ONE_THREAD) $(OLDEST)/$(SCRIPTS)/python -m pytest -n $(WORKERS) --dist worksteal -q

check: $(VENV)/.dev  ## lint, format, types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Warnings are errors; the check of the pages looks at links, and for anything that is loaded remotely.
docs: $(VENV)/.docs  ## the site, in docs/_build/html
	$(ONE_THREAD) $(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	$(BIN)/python tools/check_site.py docs/_build/html

dist: $(VENV)/.release  ## wheel and sdist, tried in an empty environment
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(ONE_THREAD) $(BIN)/python tools/check_dist.py dist

format: $(VENV)/.dev  ## rewrite the sources in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.dev  ## speed, as ratios measured in one run
	$(ONE_THREAD) $(BIN)/python -m benchmarks.speed
	$(ONE_THREAD) $(BIN)/python -m benchmarks.order_speed
	$(ONE_THREAD) $(BIN)/python -m benchmarks.random_problems
	$(ONE_THREAD) $(BIN)/python -m benchmarks.prediction
	$(ONE_THREAD) $(BIN)/python -m benchmarks.sets
	$(ONE_THREAD) $(BIN)/python -m benchmarks.before
	$(BIN)/python -m benchmarks.threads

# Long forms of tests of the page: load, kills, hostile tables, simulated judges, a new environment.
asking: $(VENV)/.dev  ## the page of `ordinalgp ask` for half an hour; run nothing else at the same time
	for name in load kill hostile sessions first_answer; do \
	    $(ONE_THREAD) $(BIN)/python -m tests.ask.$$name || exit 1; done

# What is in papers/results is not computed again; remove a file there to start anew.
PAPERS := $(ONE_THREAD) $(BIN)/python -m papers
PAGES := --output papers/results --pages docs/results --jobs $(WORKERS)
PAPER_TABLES := gpor-table2 gpor-table3 gpor-cells gpor-figure2 gpor-figure3 gpor-genes plsor-table3 plsor-table4 plsor-table5 \
    order-table1 order-figure2 collaborative-table1 isbor-table3 isbor-figure2
PEER_TABLES := peers real-tables surveys tocuco

tables: $(VENV)/.dev  ## the papers' tables beside ours (resumable); pages in docs/results
	for name in $(PAPER_TABLES); do $(PAPERS) $$name $(PAGES) || exit 1; done
	$(BIN)/python -m papers.closing

pages: $(VENV)/.dev  ## all pages in docs/results anew from the records, without a fit
	for name in $(PAPER_TABLES) $(PEER_TABLES) intervals; do $(PAPERS) $$name $(PAGES) --report-only || exit 1; done
	$(BIN)/python -m papers.closing

peers: $(VENV)/.dev  ## our models beside other libraries (resumable)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[peers]"
	for name in $(PEER_TABLES); do $(PAPERS) $$name $(PAGES) || exit 1; done

clean:  ## remove everything that make created
	rm -rf $(VENV) $(OLDEST) .pytest_cache .mypy_cache .ruff_cache .hypothesis dist docs/_build docs/gallery docs/reference/generated \
	    docs/reference/backreferences docs/sg_execution_times.rst
