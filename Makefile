# `make demo` and `make test` need Python 3.11, pip and make; everything else they install into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: help install demo test test-slow test-orders prove lint format bench docs docs-tables notebooks clean

help:  ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(STAMP)  ## create .venv and install vitscope with what the tests need

$(STAMP): pyproject.toml
	@echo "installing vitscope and what its tests need into $(VENV) (a few minutes the first time)"
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "vitscope needs Python 3.11 or newer, this is %d.%d; set PYTHON=/path/to/python3.11" % v[:2])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $(STAMP)

demo: install  ## examine three trained models on the embedded images, write runs/demo/report.html
	@echo "running the demo: three trained models, every exam, one page"
	$(BIN)/vitscope demo

test: install  ## the tests (under 15 minutes on 2 cores)
	@echo "running the tests"
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 \
	    $(BIN)/python -m pytest -n 3 --dist worksteal --durations=10  # three, as some wait for others

test-slow: install  ## the whole registry, and other work of many minutes
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow

ORDER ?= file by file
test-orders: install  ## the tests that compare numbers, as on CPUs that add up otherwise; ORDER="by shape" for one order
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --sums "$(ORDER)" \
	    tests/anatomy tests/curvature tests/exams tests/models tests/oracles tests/surgery tests/training

SEED ?= 0
prove: install  ## faults, bad input, strangers, scale: what was tried goes into docs/reliability.md (under an hour on 2 cores)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.prove --seed $(SEED)
	$(BIN)/python -m tests.prove --write docs/reliability.md

lint: install  ## ruff (format and check) and mypy
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: install  ## let ruff put the files in order
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: install  ## speed: all ratios of CPU time in one table, beside the ones that are kept
	$(BIN)/python benchmarks/ratios.py

docs: install  ## build the site of docs/ into site/
	$(BIN)/mkdocs build --strict
	@echo "open site/index.html"

docs-tables: install  ## regenerate the tables in docs/ (about half an hour)
	$(BIN)/python -m tests.exam_lists
	$(BIN)/python -m tests.api_list
	$(BIN)/python -m tests.registry --write docs
	$(BIN)/python -m tests.surgery_table --write docs/surgery

notebooks: install  ## execute the notebooks in docs/ anew (about ten minutes)
	$(BIN)/python -m tests.notebooks --write docs/notebooks

clean:  ## remove the environment and the runs
	rm -rf $(VENV) runs .pytest_cache .mypy_cache .ruff_cache
