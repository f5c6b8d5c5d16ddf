# The easy command is the right one: `make check test` is what CI runs.
#
# Everything runs from .venv, which the targets set up by themselves from requirements.lock (with hashes) and set up anew
# when that file changes. Paths are relative, so that a checkout may live under a path with spaces.

PYTHON ?= python3
PORT ?= 3000
DATA_DIR ?= .data
ARGS ?=
BLOCK ?=
SOAK_SECONDS ?= 120
SOAK_SEED ?=
ROUNDS ?= 20
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)' 2>/dev/null || echo 1)
export PORT DATA_DIR SOAK_SECONDS SOAK_SEED
# How the user's own Python is to behave is no setting of ours: with -W error or another home, nothing would start.
unexport PYTHONHOME PYTHONINSPECT PYTHONIOENCODING PYTHONOPTIMIZE PYTHONPATH PYTHONSAFEPATH PYTHONSTARTUP PYTHONWARNINGS

BIN := .venv/bin
SAM_OFFLINE := AWS_DEFAULT_REGION=us-east-1 SAM_CLI_TELEMETRY=0
READY := .venv/ready .venv/ready-worker

.DEFAULT_GOAL := help
.PHONY: help run test test-fast test-shop test-lowest test-pgbouncer mutants audit check format sql soak recovery bench docs lock clean sam-validate sam-test sam-local deploy

help: ## lists the targets
	@echo 'make …'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' Makefile

run: $(READY) ## starts the whole stack: PORT=3000 DATA_DIR=.data DATABASE_URL=… DILAMME_…=…; Ctrl-C stops it
	@PYTHONPATH=.:shared exec $(BIN)/python -m dilamme_cli dev

# A file of tests stays in one process, each of which has a PostgreSQL of its own. Not the longest files first, as is usual: in
# the folders' order the slow ones come early and the quick ones fill the gaps at the end. Bytecode is kept even where the
# environment says otherwise (Docker's images of Python do): each process would compile all tests anew.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest
SIDE_BY_SIDE = $(if $(filter-out 1,$(WORKERS)),--numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder)
FAST := tests/docs tests/template tests/unit tests/mutants/test_faults.py::test_every_faults_text_stands_in_its_file_once_and_its_tests_exist \
	$(patsubst %,tests/functions/test_%.py,api_submit api_idempotency worker_events rescue_events) \
	$(patsubst %,tests/integration/test_%.py,exactness idempotency retry series schema)

test: $(READY) ## runs the tests, WORKERS=4 files at a time (one more than there are cores, since many wait); ARGS='tests/unit -k heap' for some of them, one after the other
	@$(PYTEST) $(or $(ARGS),$(SIDE_BY_SIDE))

test-fast: $(READY) ## runs in a minute what to run at every save: units, template, documents, and the heart of the rest
	@TESTS_EXAMPLES=10 $(PYTEST) --numprocesses 2 --dist loadfile --no-loadscope-reorder -q $(FAST) $(ARGS)

# What meets the libraries whose lower bounds pyproject.toml gives: psycopg, pydantic, uuid-utils, boto3, Powertools.
LOWEST := $(addprefix tests/unit/test_,answers.py execute.py ids.py library_arguments.py requests.py settings.py) \
	$(addprefix tests/integration/test_,arrays.py library.py wake.py) \
	$(addprefix tests/functions/test_api_,errors.py events.py idempotency.py problems.py submit.py) \
	$(addprefix tests/functions/test_,database_login.py worker_events.py)
# Stops a clock that botocore had elsewhere.
NEW_BOTOCORE := tests/functions/test_database_login.py::test_at_one_instant_even_the_signature_is_the_same

test-lowest: .venv-lowest/ready ## runs some tests with the oldest versions that pyproject.toml allows (Python 3.11 to 3.13)
	@.venv-lowest/bin/python -m pytest $(or $(ARGS),$(LOWEST) --deselect $(NEW_BOTOCORE))

check: $(READY) ## lints, checks the format and the types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# An application as users write one, in an environment of its own; from the checkout, so that it meets this version.
test-shop: .venv-shop/ready ## runs the tests of examples/shop: orders, payments, images, mail
	@cd examples/shop && PYTHONPATH=../..:../../shared ../../.venv-shop/bin/python -m pytest -p dilamme.testing.plugin $(ARGS)

test-pgbouncer: $(READY) ## runs integration and e2e through PgBouncer on PostgreSQL 15 (minutes; ARGS='tests/e2e')
	@tests/through-pgbouncer $(ARGS)

mutants: $(READY) ## puts one fault after the other into a copy, and shows which test notices; ARGS='claim fence' for some
	@nice $(BIN)/python -m tests.mutants $(ARGS)

audit: $(READY) ## looks for weaknesses: bandit in the code, the advisories' databases for all lock files (AUDIT_MAY_MISS="why" without them)
	@$(BIN)/bandit --quiet --configfile pyproject.toml --recursive shared functions dilamme_local dilamme_cli tools
	@$(BIN)/python -m tools.audit

format: $(READY) ## formats, and fixes what the linter can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

sql: $(READY) ## prints a statement of shared/dilamme/store/sql with its fragments in place: BLOCK=claim; lists all without
	@PYTHONPATH=.:shared $(BIN)/python -m tools.sql $(BLOCK)

soak: $(READY) ## kills, loses and doubles under load, then audits and adds to tests/soak/ledger.jsonl: SOAK_SECONDS=120 SOAK_SEED=…; ARGS=--verbose
	@PYTHONPATH=.:shared exec $(BIN)/python -m tests.soak $(ARGS)

recovery: $(READY) ## measures how long after a kill a job runs again and the scheduler ticks again: ROUNDS=20
	@PYTHONPATH=.:shared exec $(BIN)/python -m tests.soak.recovery $(ROUNDS)

# Rivals and plots live in an environment of their own. `make bench-drain ARGS='--jobs 2000 --rounds 1'` runs one of them.
BENCHMARKS := heap_vs_wheel drain drain_deep depth latency enqueue fairness bounds memory capacity

bench: .venv-bench/ready ## runs all benchmarks, an hour or two on a quiet machine: benchmarks/README.md
	@for name in $(BENCHMARKS); do $(MAKE) --no-print-directory bench-$$name || exit; done

bench-%: .venv-bench/ready ## runs one: make bench-drain ARGS='--jobs 2000 --rounds 1'
	@PYTHONPATH=.:shared exec .venv-bench/bin/python -m benchmarks.$* $(ARGS)

bench-drain_deep: .venv-bench/ready
	@PYTHONPATH=.:shared exec .venv-bench/bin/python -m benchmarks.drain --deep 500000 $(ARGS)

docs: $(READY) ## writes anew what the documents say of settings, routes, prices and cases
	@PYTHONPATH=.:shared $(BIN)/python -m tools.settings_table
	@PYTHONPATH=.:shared $(BIN)/python -m tools.openapi_file
	@PYTHONPATH=.:shared $(BIN)/python -m tools.cost --write
	@$(BIN)/python -m tests.cases
	@PYTHONPATH=.:shared $(BIN)/python -m tests.soak.ledger

sam-validate: .venv-sam/ready ## checks template.yaml with SAM's own linter and the serverless rules
	@$(SAM_OFFLINE) .venv-sam/bin/sam validate --lint
	@$(SAM_OFFLINE) .venv-sam/bin/cfn-lint template.yaml -a cfn_lint_serverless.rules

sam-test: $(READY) .venv-sam/ready ## builds the stack and runs it in containers (needs Docker or Finch; minutes)
	@SAM_TESTS=1 $(BIN)/python -m pytest tests/sam -rs --timeout 900 $(ARGS)

sam-local: $(READY) .venv-sam/ready ## builds, starts API and Lambda in containers, posts a job and sees it completed
	@PYTHONPATH=.:shared exec $(BIN)/python -m tests.sam.stack

deploy: .venv-sam/ready ## builds and deploys to AWS (needs credentials): docs/aws.md
	@python_3_13=$$(tests/sam/python-3.13 "$(CURDIR)/.data/python-3.13") && export PATH="$$python_3_13:$$PATH" && \
		.venv-sam/bin/sam build && .venv-sam/bin/sam deploy --guided $(ARGS)

# What Lambda's runtime brings by itself; Powertools needs jmespath too, which is not promised.
RUNTIME_BRINGS := boto3 botocore s3transfer python-dateutil six urllib3
COMPILE := uv pip compile pyproject.toml --universal --python-version 3.11 --extra functions \
	--generate-hashes --no-header --no-annotate --quiet

lock: $(READY) ## resolves the lock files and the dependencies layer anew (needs uv)
	$(COMPILE) --extra dev --group dev --output-file requirements.lock
	$(COMPILE) --constraint requirements.lock $(RUNTIME_BRINGS:%=--no-emit-package %) \
		--output-file layers/dependencies/requirements.txt
	$(COMPILE) --extra local --group bench --constraint requirements.lock --output-file requirements-bench.lock
	$(COMPILE) --extra testing --group shop --constraint requirements.lock --output-file requirements-shop.lock
	$(COMPILE) --resolution lowest-direct --extra testing --group test --output-file requirements-lowest.lock
	uv pip compile requirements-sam.in --universal --python-version 3.11 --generate-hashes --no-header --no-annotate \
		--no-strip-extras --quiet --output-file requirements-sam.lock
	@$(BIN)/python -m tools.pin_both_ways requirements-sam.lock

clean: ## removes the environment and the caches; the data in .data stays
	rm -rf .venv .venv-sam .venv-bench .venv-lowest .venv-shop benchmarks/node/node_modules .aws-sam .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info shared/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Prints nothing, or why this Python will not do; as an error of make's own it is one line. `true`: of a command that ends
# with 127, as a shim for a Python that is not installed does, make would throw the words away and go on.
PROBLEM = $(shell command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not here: install Python 3.11 or newer"; exit; }; \
	$(PYTHON) -c 'import sys; v = "%d.%d" % sys.version_info[:2]; \
	sys.version_info >= (3, 11) or sys.exit("Dilamme needs Python 3.11 or newer, and $(PYTHON) is " + v + ": try PYTHON=python3.13"); \
	import importlib.util as u; \
	u.find_spec("ensurepip") or sys.exit("$(PYTHON) has no venv with pip: on Debian, apt-get install python3-venv")' 2>&1; true)

.venv/ready: requirements.lock
	$(if $(PROBLEM),$(error $(PROBLEM)))
	@$(PYTHON) -P dilamme_local/set_up.py .venv $<

# What the users' job handlers need; often nothing, of which pip would warn.
.venv/ready-worker: functions/worker/requirements.txt .venv/ready
	@! grep -q '^[^#]' $< || $(BIN)/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# Environments of their own: the SAM CLI's (it pins versions that the functions do not run with), the benchmarks' rivals, the
# lowest versions.
.venv-%/ready: requirements-%.lock
	$(if $(PROBLEM),$(error $(PROBLEM)))
	@$(PYTHON) -P dilamme_local/set_up.py .venv-$* $<
