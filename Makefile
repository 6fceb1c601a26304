# Set-up is part of every target: the first one makes .venv, later ones find it.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)

.DEFAULT_GOAL := help
# What bench-speed-gpu runs: TOWER=ViT-L-14 SPEED_ARGS="--dtype fp16 --images 20000", say.
TOWER ?= ViT-B-32
SPEED_ARGS ?=

.PHONY: help setup demo test lint format bench-speed bench-speed-gpu clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(READY)  ## Make .venv with capbench and what it needs

$(READY): pyproject.toml constraints.txt
	@command -v uv >/dev/null || test -x .uv/bin/uv || { \
		echo "setting up: uv"; $(PYTHON) -m venv .uv && .uv/bin/python -m pip install --quiet uv; }
	@echo "setting up: .venv (several GB are fetched the first time)"
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) .venv
	@$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: $(READY)  ## Score recorded captions on ImageInWords; needs no download of data
	$(BIN)/bench run --model iiw-p5b --task iiw_400

test: $(READY)  ## Run the tests; CAPBENCH_DATA=DIR adds those that need the raw data sets
	$(BIN)/python -m pytest

lint: $(READY)  ## Check style, docstrings and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

format: $(READY)  ## Bring the code into the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-speed: $(READY)  ## Measure speed, as ratios against the tools of the field
	$(BIN)/python benchmarks/speed/startup.py
	$(BIN)/python benchmarks/speed/text_metrics.py
	$(BIN)/python benchmarks/speed/meteor.py
	$(BIN)/python benchmarks/speed/bootstrap.py
	$(BIN)/python benchmarks/speed/memory.py

bench-speed-gpu: $(READY)  ## The same for encoders and captioners; on the GPU where there is one
	$(BIN)/python benchmarks/speed/encoders.py --architecture $(TOWER) $(SPEED_ARGS)
	$(BIN)/python benchmarks/speed/clip_f1.py
	$(BIN)/python benchmarks/speed/captioners.py

clean:  ## Remove what the targets made
	rm -rf .venv .uv build *.egg-info .pytest_cache .ruff_cache .hypothesis
