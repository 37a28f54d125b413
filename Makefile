# Two commands on a fresh machine: `make demo` and `make test`. Everything happens in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test test-all test-families test-slurm mutants lint format clean

# The CPU build of torch comes first and alone, so that nothing pulls another one in.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(STAMP)

# The environment alone: about 1.7 GB, some minutes.
install: $(STAMP)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

demo: $(STAMP)
	$(BIN)/python benchmarks/demo.py

test: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 -m "not slow and not families and not peers and not gpu and not slurm"

test-all: $(STAMP)
	$(BIN)/python -m pytest -q -m "not peers and not slurm"

# All families of models, and the table of docs/models.md.
test-families: $(STAMP)
	LIT_RL_WRITE_MODELS_PAGE=1 $(BIN)/python -m pytest -q tests/models/test_families.py

# Submits real jobs where a scheduler answers (configs/slurm/test_scheduler.sh starts one on this machine).
test-slurm: $(STAMP)
	$(BIN)/python -m pytest -q -rs -m slurm tests/test_slurm.py

# Deliberate mistakes, one at a time, in a copy of the code: do the tests notice them? Some minutes.
mutants: $(STAMP)
	$(BIN)/python benchmarks/mutants.py

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
