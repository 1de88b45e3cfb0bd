# `make run` and `make test` need Python 3.11, make and a C compiler; everything else is installed here.
PYTHON ?= python3
VENV   := .venv
PIP    := $(VENV)/bin/pip --disable-pip-version-check install --quiet --constraint constraints.txt
BIN    := $(VENV)/bin

# Test processes, each with one thread; `make test WORKERS=0` runs everything in one process.
WORKERS ?= logical
PYTEST  := $(BIN)/python -m pytest --numprocesses $(WORKERS) --maxprocesses 4 --dist worksteal
# What the linters read; benchmarks/ holds what users do not import.
SOURCES := conftest.py src tests lab examples $(wildcard benchmarks)

.PHONY: run test coverage endurance test-integrations wheel-test lint bench docs sbom clean

run: $(VENV)/.run          ## the service, with a live demo flowing through it, offline
	$(BIN)/sigma-mem demo --serve

test: $(VENV)/.dev         ## every test
	$(PYTEST)

coverage: $(VENV)/.dev     ## branches of the product that its tests run, which takes 1.7 times as long as its tests alone
	$(PYTEST) tests --cov --cov-report term:skip-covered --cov-fail-under 95

endurance: $(VENV)/.dev    ## long counts: hundreds of kills, thousands of cases for every property
	$(PYTEST) -m "endurance or hypothesis" --hypothesis-profile endurance --timeout 1800

test-integrations:         ## every adapter with the current version of its framework, each in an environment of its own
	$(PYTHON) tests/integrations/each_alone.py

wheel-test:                ## build both wheels, install them in an empty environment, use them there
	$(PYTHON) tests/wheel/install_and_use.py

lint: $(VENV)/.dev         ## style, types, import direction, plain English
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(if $(wildcard benchmarks),$(BIN)/mypy benchmarks)
	$(BIN)/lint-imports
	$(BIN)/python tests/prose.py

STREAM ?= ../shared/data/mmlu-pro.jsonl.gz
# An environment with litellm[proxy], to compare the gateway with it.
LITELLM ?=

bench: $(VENV)/.dev        ## timings, as ratios against rivals and baselines in the same run
	$(BIN)/sigma-mem bench speed
	$(BIN)/sigma-mem bench age
	$(BIN)/python benchmarks/service.py
	$(BIN)/python benchmarks/replicas.py
	$(BIN)/python benchmarks/gateway.py $(if $(LITELLM),--litellm $(LITELLM))
	$(BIN)/sigma-mem center pull
	if [ -f $(STREAM) ]; then $(BIN)/python benchmarks/center_speed.py $(STREAM); \
	else echo "no stream at $(STREAM): the center is not timed; run make bench STREAM=..."; fi

docs: $(VENV)/.dev         ## build the documentation and check its links
	$(BIN)/mkdocs build --strict --site-dir build/site

sbom:                      ## what is in the image, with hashes, as CycloneDX: build/sbom.cdx.json
	$(PYTHON) -m venv build/sbom
	build/sbom/bin/pip --disable-pip-version-check install --quiet 'cyclonedx-bom>=7,<8'
	build/sbom/bin/cyclonedx-py requirements deploy/requirements.txt --pyproject pyproject.toml \
		--mc-type application --output-reproducible --output-file build/sbom.cdx.json

clean:
	rm -rf $(VENV) build lab/build .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml constraints.txt Makefile | $(VENV)/bin/python
	@echo "Installing into $(VENV), once: this takes a minute or two."
	$(PIP) --editable '.[serve]'
	touch $@

$(VENV)/.dev: pyproject.toml lab/pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "Installing into $(VENV), once: this takes some minutes, torch is large."
	$(PIP) --editable . --editable './lab[dev]'
	touch $@
