# Two commands are enough: `make demo` and `make test`. Both make their own .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# Everything that some test or page needs.
EXTRAS := all,statistics,database,dask,lightgbm,flights

LOWEST := .venv-lowest
# What says whether the package works at all: mathematics, contract, estimator, frames, files of models, first screens.
CORE_TESTS := odds points label_shift effects choice auc_gain alignment metrics calibration partition contract classifier \
	classifier_inputs classifier_truth copies tables bad_input persistence refused_models displays cli_errors floors \
	rare_positives

.PHONY: setup demo test test-lowest lint bench docs reproduce clean

setup: $(READY)

# --group needs pip 25.1; a fresh venv carries whatever pip its Python shipped.
$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[$(EXTRAS)]" polars --group test --group lint
	touch $@

demo: $(READY)
	$(BIN)/groupshift demo

# Two test processes with two threads each would fight over two cores. A file stays in one process: what its tests share
# (a model, a cluster, a browser) is made once. tests/conftest.py puts long files first, so that both processes end within
# seconds of each other. Compiled files are kept, whatever the environment says: tests start some hundred processes, and each
# would compile the package again.
test: $(READY)
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# The lowest supported version of everything, in an environment of its own.
test-lowest: $(LOWEST)/.ready
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -n 2 -p no:cacheprovider $(CORE_TESTS:%=tests/test_%.py)

$(LOWEST)/.ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(LOWEST)/bin/python -m pip install --quiet --editable ".[cli,plot]" pandas polars --group test \
		--constraint constraints-lowest.txt
	touch $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m pip install --quiet --group bench
	$(BIN)/python -m benchmarks --all

# Runs the gallery, so it takes a minute or two; warnings and broken internal links are errors.
docs: $(READY)
	$(BIN)/python -m pip install --quiet --group docs
	rm -rf docs/reference/generated
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -E -W --keep-going --quiet docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html

# The article's tables and figures beside ours: synthetic data at a small scale, real data from the stored runs.
reproduce: $(READY)
	$(BIN)/python -m paper run paper --scale small --out paper/results/small
	$(BIN)/python -m paper report paper/results/small

clean:
	rm -rf .venv $(LOWEST) build dist docs/_build docs/gallery docs/reference/generated docs/reference/backreferences .mypy_cache .ruff_cache .pytest_cache
