# Everything starts here: `make help`. Needed: make, and Python 3.11 to 3.14 as `python3`
# (or PYTHON=…). ARGS=… reaches the command of a target: make up ARGS="--detach --wait".

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
ARGS ?=
# quick: what needs no part of `make real-parts` and takes no long time; all: everything.
TIER ?= quick
# Processes that share the tests: many tests wait for servers, so that four keep two cores busy.
WORKERS ?= 4
VENV := .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
NPM := $(shell command -v npm 2>/dev/null)

# States of .venv, each renewed when what it is made from changes.
RUN := $(VENV)/.run
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs
# What the console's page is built with, likewise.
MODULES := frontend/node_modules/.installed

ifneq ($(UV),)
CREATE := $(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
INSTALL := $(UV) pip install --quiet --python $(BIN)/python
else
CREATE := $(PYTHON) -m venv $(VENV)
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input
endif

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: up
up: $(RUN) ## Start a cluster on this machine (Ctrl-C stops it)
	@$(BIN)/kilonova up $(ARGS)

.PHONY: test
test: $(DEV) ## Run the tests that need nothing installed (TIER=all: every test; ARGS=tests/PACKAGE)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --tier=$(TIER) $(ARGS)

.PHONY: durations
durations: $(DEV) ## Record how long each test takes, on a quiet machine (tests/durations.json)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --record-durations $(ARGS)

.PHONY: venv
venv: $(DEV) ## Set up everything for development in .venv

.PHONY: check
check: $(DEV) ## Check format, lint, types, layers, and that generated tables are fresh
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m tools.crds.generate --check
	$(BIN)/python -m tools.docs.component_pages --check
	$(BIN)/python -m tools.grpc_stubs.generate --check
	$(BIN)/python -m tools.supersonic_values --check
ifneq ($(shell command -v go 2>/dev/null),)
	$(BIN)/python -m tools.schemas.generate --check
	$(BIN)/python -m tools.schemas.zero_values --check
	$(BIN)/python -m tools.schemas.columns --check
	$(BIN)/python -m tools.protobuf.generate --check
	$(BIN)/python -m tools.rbac.generate --check
else
	@echo "No go on the PATH: the generated tables were not compared with Kubernetes' modules."
endif
ifneq ($(NPM),)
	@$(MAKE) $(MODULES)
	$(BIN)/python -m tools.frontend.check
else
	@echo "No npm on the PATH: the console's built page was not compared with frontend/."
endif

.PHONY: frontend
frontend: $(MODULES) ## Build the console's page from frontend/ (needs Node.js)
	@cd frontend && npm run --silent build

.PHONY: screenshots
screenshots: $(DEV) ## Take pictures of the console (ARGS="--into FOLDER", or --readme)
	@$(BIN)/python -m tools.screenshots.take $(ARGS)

.PHONY: docs
docs: $(DOCS) ## Build the documentation into site/; broken links are errors
	@$(BIN)/python -m tools.docs $(ARGS)

.PHONY: bench
bench: $(DEV) ## Run the benchmarks (ARGS="NAME --json FILE")
	$(BIN)/python -m bench $(or $(ARGS),home)

.PHONY: faults
faults: $(DEV) ## Run fault injection at full length: 1,000 kills, long random searches
	KILONOVA_FULL=1 KILONOVA_KILLS=$${KILONOVA_KILLS:-1000} KILONOVA_WORLDS=$${KILONOVA_WORLDS:-10000} \
		KILONOVA_FAULT_RUNS=$${KILONOVA_FAULT_RUNS:-300} \
		$(BIN)/pytest -o faulthandler_timeout=1800 -o timeout=3600 --tier=faults $(ARGS)

.PHONY: image
image: $(RUN) ## Write the container image into dist/, without a container builder (Linux)
	@$(BIN)/python -m tools.image $(ARGS)

.PHONY: control-plane
control-plane: | $(BIN)/python ## Build a real Kubernetes control plane, once; prints its folder
	@$(BIN)/python -m tools.realparts control-plane

.PHONY: chromium
chromium: | $(BIN)/python ## Get a browser for the tests of the console; prints its command
	@$(BIN)/python -m tools.realparts chromium

.PHONY: real-parts
real-parts: | $(BIN)/python ## Get everything that `make test TIER=all` needs (ARGS=--list, ARGS="NAME …")
	@$(BIN)/python -m tools.realparts $(ARGS)

.PHONY: lock
lock: ## Update the pinned dependencies (needs uv)
	@command -v "$(UV)" >/dev/null || { echo "make lock: no uv on the PATH" >&2; exit 1; }
	$(call compile,build --extra serving,requirements.lock)
	$(call compile,dev --extra s3 --extra tokenizers --extra serving --extra onnx,requirements-dev.lock)
	$(call compile,docs,requirements-docs.lock)

compile = $(UV) pip compile --quiet --universal --generate-hashes --no-header --no-annotate \
	--no-emit-index-url pyproject.toml --group $(1) -o $(2)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; (3, 11) <= sys.version_info < (3, 15) or sys.exit("Kilonova needs Python 3.11 to 3.14, and $(PYTHON) is " + sys.version.split()[0] + ": make PYTHON=python3.11 …")'
	@echo "Creating $(VENV) …"
	@$(CREATE)

$(RUN): requirements.lock pyproject.toml | $(BIN)/python
	@echo "Installing what Kilonova runs on …"
	@$(INSTALL) --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

# What development needs contains what running needs.
$(DEV): requirements-dev.lock pyproject.toml | $(BIN)/python
	@echo "Installing what development needs …"
	@$(INSTALL) --require-hashes -r requirements-dev.lock
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $(RUN) $@

$(MODULES): frontend/package-lock.json
	@test -n "$(NPM)" || { echo "make frontend: no npm on the PATH; it comes with Node.js 20.19 or newer" >&2; exit 1; }
	@echo "Installing what the console's page is built with …"
	@cd frontend && npm ci --loglevel=error --no-audit --no-fund
	@touch $@

# What renders the documentation, beside whatever is there.
$(DOCS): requirements-docs.lock | $(BIN)/python
	@echo "Installing what the documentation is built with …"
	@$(INSTALL) --require-hashes -r requirements-docs.lock
	@touch $@
