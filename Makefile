# Set-up is part of every target: the first one makes .venv, later ones find it.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Oldest and newest that exported tasks run in, for tests; constraints.txt has the one of .venv.
LM_EVAL := 0.4.11 0.5.0.dev1
# For its test, without what it needs of other versions than constraints.txt has.
TRACKIO := trackio==0.43.0 gradio-client==2.7.2 orjson==3.13.0 python-multipart==0.0.34 websockets==17.4
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)

# Compiled modules are kept, even where the environment says otherwise: a process that has to compile torch and
# transformers first takes twice as long, and the tests start dozens.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
# What bench-speed-gpu measures of encoders: SPEED_ARGS="--architecture ViT-L-14 --dtype bf16 --images 50000", say.
SPEED_ARGS ?=
# What bench-scale takes: SCALE_ARGS="--rows 10000" for a minute or two.
SCALE_ARGS ?=
# Processes of 'test': as many as cores. Each imports torch and all tests; one more takes a fifth longer.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(os.cpu_count())')
# What 'runs' finds CAPTURE's models in, unless they are installed: folders called as its settings name them.
CAPTURE_RESOURCES ?= .
# What kills takes: KILLS_ARGS="--kills 300 --seed 7", say.
KILLS_ARGS ?=
# What leaderboard-diff and same compare with.
BASE ?= HEAD

.PHONY: help setup demo world recipes docs test test-all lint format runs leaderboard leaderboard-check leaderboard-diff bench-speed \
	bench-scale bench-speed-gpu kills same clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup: $(READY)  ## Make .venv with capbench and what it needs

$(READY): pyproject.toml constraints.txt
	@command -v uv >/dev/null || test -x .uv/bin/uv || { \
		echo "setting up: uv"; $(PYTHON) -m venv .uv && .uv/bin/python -m pip install --quiet uv; }
	@echo "setting up: .venv (several GB are fetched the first time)"
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) .venv
	@$(MAKE) --no-print-directory --jobs 5 .venv.dev $(LM_EVAL:%=.venv.lm_eval-%) .venv.trackio .venv.wandb
	@touch $@

# What goes into .venv: most of the time is the network's, so side by side.
.venv.dev:
	@$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable '.[dev]'

.venv.lm_eval-%:
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --prerelease allow --target .venv/lm_eval/$* lm_eval==$*

.venv.trackio:
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --target .venv/trackio $(TRACKIO)

# A folder of its own: timm imports wandb where it can, which takes each process four seconds.
.venv.wandb:
	@$(UV) pip install --quiet --python $(BIN)/python --constraint constraints.txt --target .venv/wandb wandb

demo: $(READY)  ## Show all seven protocols in two minutes, on ImageInWords and the shapes world; downloads no data
	@rm -rf demo && mkdir demo
	$(BIN)/bench run --model iiw-p5b --task iiw_400 --metrics meteor,cider,rouge_l --output_path demo/runs
	@echo
	$(BIN)/bench run --model shapes-llava --task shapes_detailcaps --metrics capture,meteor --output_path demo/runs
	@echo
	$(BIN)/bench run --model shapes-clip --task shapes_expert --metrics cider,clip_s --output_path demo/runs
	@echo
	@echo "Five more runs; demo/log.txt has what they print."
	@$(BIN)/bench run --model shapes-clip --task shapes_foil,shapes_dci_all_scm --output_path demo/runs >demo/log.txt 2>&1
	@$(BIN)/bench run --task shapes_battles,checklist_iiw --metrics rouge_l,cider --output_path demo/runs >>demo/log.txt 2>&1
	@$(BIN)/bench run --model shapes-answers --task shapes_pope_random --output_path demo/runs >>demo/log.txt 2>&1
	@$(BIN)/bench leaderboard build --runs demo/runs --output demo/leaderboard
	@echo "Open demo/leaderboard/index.html in a browser; docs/shapes.md explains the figures."
	@echo "Look at single captions with '$(BIN)/bench view demo/runs', and open the address that it prints."

world: $(READY)  ## Train the models of the shapes world anew: 25 to 50 minutes on 2 cores
	$(BIN)/python -m capbench.recipes.shapes.world.encoder --output adapters/models/shapes-clip
	$(BIN)/python -m capbench.recipes.shapes.world.plain --output adapters/models/shapes-clip-plain
	$(BIN)/python -m capbench.recipes.shapes.world.sighted --encoder adapters/models/shapes-clip \
		--output adapters/models/shapes-clip-sighted
	$(BIN)/python -m capbench.recipes.shapes.world.pac --encoder adapters/models/shapes-clip \
		--output adapters/models/shapes-pac.pth
	$(BIN)/python -m capbench.recipes.shapes.world.captioner --encoder adapters/models/shapes-clip \
		--output adapters/models/shapes-llava
	$(BIN)/python -m capbench.recipes.shapes.world.answers --captioner adapters/models/shapes-llava \
		--output adapters/models/shapes-answers
	$(BIN)/python -m capbench.recipes.shapes.world.short_captioner --encoder adapters/models/shapes-clip \
		--output adapters/models/shapes-captioner

recipes: $(READY)  ## Carry out the recipes of the shapes world with several seeds, and look what they show
	$(BIN)/python speed/replication.py --output trained
	$(BIN)/python speed/replication.py --rewards --output trained
	$(BIN)/bench train shapes_grpo_meteor --output trained/grpo_meteor
	$(BIN)/python speed/self_training.py --output trained/loops

docs: $(READY)  ## Build the site into build/site; a broken link, an unknown reference or a page left out fails
	$(BIN)/python docs/site/stage.py build/docs
	$(BIN)/zensical build --clean --strict
	$(BIN)/python docs/site/outside.py build/site

test: $(READY)  ## Run the tests but those marked costly or ray; CAPBENCH_DATA=DIR adds those that need the raw data sets
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal -m "not costly and not ray"

test-all: $(READY)  ## Run all tests
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

lint: $(READY)  ## Check style, docstrings and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyrefly check --python-interpreter-path $(BIN)/python

format: $(READY)  ## Bring the code into the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

runs: $(READY)  ## Make the kept runs anew, into results/runs; CAPBENCH_DATA=DIR names the raw data sets
	$(BIN)/bench run --task flickr8k,composite,foil_valse_1ref,foil_valse_4ref --log_samples scores \
		--output_path results/runs
	$(BIN)/bench run --task pascal50s --skip_checks --log_samples scores --output_path results/runs	# two categories
	cd $(CAPTURE_RESOURCES) && $(CURDIR)/$(BIN)/bench run --model iiw-p5b --task iiw_400 \
		--metrics meteor,cider,rouge_l,bleu_1,bleu_4,length \
		"capture[parser=spacy,parser_model=en_core_web_md,encoder=sentence-transformers/all-MiniLM-L6-v2]" \
		--output_path $(CURDIR)/results/runs
	$(BIN)/bench run --task coco_caption_5ref --model captions:$(CAPBENCH_DATA)/coco_captioners/m2_transformer.json \
		--model_args "name=M2 Transformer" --log_samples scores --output_path results/runs
	$(BIN)/bench run --task coco_caption_5ref --model captions:$(CAPBENCH_DATA)/coco_captioners/blip2_results_xe.json \
		--model_args "name=BLIP-2" --log_samples scores --output_path results/runs
	$(BIN)/bench run --task coco_humans --model data-captions --log_samples scores --output_path results/runs
	cd $(CAPTURE_RESOURCES) && $(CURDIR)/$(BIN)/bench run --log_samples scores \
		--task aloha_hat,aloha_nocaps_foil,aloha_hat_detection,aloha_nocaps_foil_detection \
		--metrics bleu_1,bleu_4,rouge_l,meteor,cider,length \
		"factual_spice[parser=spacy,parser_model=en_core_web_md]" \
		"soft_spice[parser=spacy,parser_model=en_core_web_md,encoder=sentence-transformers/all-MiniLM-L6-v2]" \
		"aloha[objects=spacy,parser_model=en_core_web_md,encoder=sentence-transformers/all-MiniLM-L6-v2]" \
		"aloha[objects=spacy,parser_model=en_core_web_md,encoder=sentence-transformers/all-MiniLM-L6-v2,unmatched=zero]" \
		--output_path $(CURDIR)/results/runs

leaderboard: $(READY)  ## Make results/leaderboard, and what results/README.md shows of it, from results/runs
	$(BIN)/bench leaderboard build --readme results/README.md
	$(BIN)/bench plot agreement results/runs/flickr8k_expert results/runs/composite --width double \
		-o results/agreement.svg

leaderboard-check: $(READY)  ## Fail if the committed leaderboard is not up to date with the runs
	$(BIN)/bench leaderboard check --readme results/README.md

leaderboard-diff: $(READY)  ## Print what moved since BASE, a commit or a folder
	@$(BIN)/bench leaderboard diff $(BASE)

bench-speed: $(READY)  ## Measure speed, as ratios against the tools of the field; fails at the end where a bar is missed
	$(BIN)/python speed/every.py startup text_metrics meteor bootstrap collecting memory store leaderboard regions \
		view opera

bench-scale: $(READY)  ## Measure what scale costs, up to SCALE_ARGS="--rows 1000000"
	$(BIN)/python speed/scale.py $(SCALE_ARGS)

bench-speed-gpu: $(READY)  ## The same for encoders and captioners; on the GPU where there is one
	$(BIN)/python speed/encoders.py $(SPEED_ARGS)
	$(BIN)/python speed/clip_f1.py
	$(BIN)/python speed/captioners.py
	$(BIN)/python speed/capture.py --captions 4

kills: $(READY)  ## Kill runs at random moments, and hold what the next run makes against an undisturbed one
	$(BIN)/python speed/kills.py $(KILLS_ARGS)

same: $(READY)  ## Run the same tasks with BASE (a commit) and with this work tree, and compare their records
	$(BIN)/python .ci/same $(BASE)

clean:  ## Remove what the targets made
	rm -rf .venv .uv build .cache demo *.egg-info .pytest_cache .ruff_cache .hypothesis
