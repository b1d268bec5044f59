# Everything a person does with this repository. `make` alone lists it.
#
# Needs: make, and Python 3.11 or newer with its venv module. All else is put into $(VENV).

VENV    ?= .venv
PYTHON  ?=
# More than the machines that run it have cores: many tests wait for processes and servers.
JOBS    ?= 3
ARGS    ?=

VERSIONS := 3.11 3.12 3.13 3.14
PY       := $(VENV)/bin/python
# Quiet twice: pip then prints errors only.
INSTALL  := $(PY) -m pip install -qq --no-input --disable-pip-version-check
COMPILE  := $(PY) -m uv pip compile --quiet --universal --generate-hashes --python-version 3.11 \
            --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

# Where this is set, each of the suite's thousand processes would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two installs at once into one environment would trip over each other.
.NOTPARALLEL:

.PHONY: help
help: ## List these targets
	@echo 'usage: make TARGET [ARGS="…"]'
	@echo
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# --- set-up: each step leaves a stamp, and is repeated only when what it read has changed ---------

.PHONY: setup
setup: $(VENV)/.stamp-dev $(VENV)/.stamp-package ## Create .venv with everything development needs
	@:

$(VENV)/.stamp-created:
	@python="$(PYTHON)"; [ -n "$$python" ] || python=$$(tools/find-python) || exit 1; \
	echo "creating $(VENV) with $$($$python --version)"; \
	"$$python" -m venv --clear $(VENV)
	@touch $@

# What the package itself needs: seconds, so that `make demo` is quick on a fresh clone.
$(VENV)/.stamp-runtime: requirements.txt | $(VENV)/.stamp-created
	@echo "installing requirements.txt"
	@$(INSTALL) --require-hashes -r requirements.txt
	@touch $@

$(VENV)/.stamp-dev: requirements-dev.txt | $(VENV)/.stamp-runtime
	@echo "installing requirements-dev.txt (a minute, the first time)"
	@$(INSTALL) --require-hashes -r requirements-dev.txt
	@touch $@

$(VENV)/.stamp-docs: requirements-docs.txt | $(VENV)/.stamp-package
	@echo "installing requirements-docs.txt"
	@$(INSTALL) --require-hashes -r requirements-docs.txt
	@touch $@

$(VENV)/.stamp-release: requirements-release.txt | $(VENV)/.stamp-dev $(VENV)/.stamp-package
	@echo "installing requirements-release.txt"
	@$(INSTALL) --require-hashes -r requirements-release.txt
	@touch $@

# The build tools come from the locked files too, so nothing unpinned is fetched here.
$(VENV)/.stamp-package: pyproject.toml src/fencepost/__init__.py | $(VENV)/.stamp-runtime
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# --- the two commands a newcomer types ------------------------------------------------------------

.PHONY: demo
demo: $(VENV)/.stamp-package $(if $(filter redis,$(STORE)),$(VENV)/.stamp-dev)
demo: ## Watch jobs run, crash, recover and finish on SQLite (or STORE=redis)
	@if [ -n "$(ARGS)" ] || [ -t 1 ]; then set -- $(ARGS); else set -- --exit; fi; \
	exec $(VENV)/bin/fencepost demo --store $(STORE) "$$@"

.PHONY: test
test: setup ## Run the whole test suite (ARGS="-k lease" for a part)
	@$(PY) hatch_build.py --if-possible
	$(PY) -m pytest -n $(JOBS) --dist worksteal --durations 10 $(ARGS)

# --- quality --------------------------------------------------------------------------------------

.PHONY: check
check: setup ## Lint, check the format and the types
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	$(PY) -m basedpyright --pythonpath $(PY)

.PHONY: format
format: setup ## Rewrite the code in the agreed format
	$(PY) -m ruff check --fix-only --quiet
	$(PY) -m ruff format

.PHONY: test-matrix
test-matrix: ## Run the suite on each installed Python from 3.11 to 3.14
	@passed=; failed=; missing=; \
	for version in $(VERSIONS); do \
	    if python=$$(tools/find-python $$version 2>/dev/null); then \
	        echo "=== Python $$version"; \
	        if $(MAKE) --no-print-directory test VENV=.venv-$$version PYTHON="$$python"; \
	        then passed="$$passed $$version"; else failed="$$failed $$version"; fi; \
	    else missing="$$missing $$version"; fi; \
	done; \
	echo "=== passed:$${passed:- none}; failed:$${failed:- none}; not installed:$${missing:- none}"; \
	[ -z "$$failed" ] && [ -n "$$passed" ]

.PHONY: coverage
coverage: setup ## Run the suite and say which lines and branches it missed
	$(PY) -m coverage erase
	$(PY) -m coverage run -m pytest -n $(JOBS) --dist worksteal -q $(ARGS)
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage report

.PHONY: bench
bench: $(VENV)/.stamp-package ## Measure speed beside the raw limit (ARGS="--help" for more)
	@$(PY) -m bench $(ARGS)

.PHONY: bench-peers
bench-peers: setup ## Measure Fencepost beside other queues, into docs/performance.md
	$(PY) -m bench.peers $(ARGS)

# --- the dashboard: its source is in ui/ ----------------------------------------------------------

.PHONY: ui
ui: setup ## Build the dashboard, with the machine's Node.js or the one in .venv
	@$(PY) hatch_build.py

.PHONY: ui-dev
ui-dev: setup ## Serve ui/ with hot reload, beside `fencepost dev` on port 8000
	@$(PY) hatch_build.py --run dev

.PHONY: ui-test
ui-test: setup ## Check the types of ui/ and test its pure functions
	@$(PY) hatch_build.py --run test

.PHONY: ui-types
ui-types: setup ## Rewrite ui/src/api/types.ts from the OpenAPI document
	@$(PY) tools/api_types.py

.PHONY: browser
browser: setup ## Put a Chromium into build/browser, for the tests of the dashboard
	@$(PY) tools/get_browser.py

.PHONY: screenshots
screenshots: ui ## Take pictures of every page, light and dark, into docs/images
	@$(PY) -m tests.dashboard.screenshots

# --- the documentation as a site: its pages are in docs/, what builds it is in tools/site -----------

.PHONY: docs
docs: $(VENV)/.stamp-docs ## Build the documentation as a site with search, in build/site
	@$(PY) -m tools.site build

.PHONY: docs-serve
docs-serve: docs ## Show it on http://127.0.0.1:8001
	@$(PY) -m tools.site serve

# --- a release: what is built is checked as a user gets it, and nothing is uploaded ------------------

.PHONY: release
release: setup $(VENV)/.stamp-release ## Build sdist, wheel and SBOM in dist/, and check them
	@$(PY) -m tools.release $(ARGS)

# --- the reliability lab --------------------------------------------------------------------------

HOURS ?= 1
SEEDS ?= 1..100
STORE ?= sqlite
SECONDS ?= 60

.PHONY: lab
lab: setup ## Try to break every promise: each suite of the lab once, for some minutes
	$(PY) -m lab.torture --hours 0.25 $(ARGS)

.PHONY: torture
torture: setup ## The same for HOURS=8, with one report at the end, in build/torture
	$(PY) -m lab.torture --hours $(HOURS) $(ARGS)

.PHONY: simulate
simulate: setup ## Run the product in simulated time under SEEDS=1..200; one seed replays
	$(PY) -m lab.simulation --seeds $(SEEDS) $(ARGS)

.PHONY: nth
nth: setup ## Let every store call of every scenario fail, before and after it took effect
	$(PY) -m lab.nth $(ARGS)

.PHONY: mutants
mutants: setup ## Plant bugs one at a time; fails if one survives
	$(PY) -m lab.mutants --jobs $(JOBS) $(ARGS)

.PHONY: chaos
chaos: setup ## Hurt real processes and servers: STORE=sqlite, postgres or redis, SECONDS=60
	$(PY) -m lab.chaos --store $(STORE) --seconds $(SECONDS) $(ARGS)

.PHONY: formal
formal: setup ## Check the model of the lease protocol, if spin is installed
	$(PY) -m lab.formal $(ARGS)

.PHONY: fuzz
fuzz: setup ## Feed every parser, then the HTTP API, with wild input for SECONDS=60 each
	$(PY) -m lab.fuzz --seconds $(SECONDS) --http $(SECONDS) $(ARGS)

# --- upkeep ---------------------------------------------------------------------------------------

.PHONY: lock
lock: setup ## Rewrite the locked requirements (ARGS="--upgrade" for newer versions)
	$(COMPILE) $(ARGS) pyproject.toml requirements-build.in --output-file requirements.txt
	$(COMPILE) $(ARGS) requirements-dev.in --output-file requirements-dev.txt
	$(COMPILE) $(ARGS) requirements-docs.in --output-file requirements-docs.txt
	$(COMPILE) $(ARGS) requirements-release.in --output-file requirements-release.txt

.PHONY: clean
clean: ## Remove environments, caches and build results
	rm -rf .venv .venv-3.* build dist ui/node_modules ui/browser/node_modules src/fencepost/dashboard/static .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage*
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
