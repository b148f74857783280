# Every target sets up what it needs; `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo check test lint kernels bench clean java

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
STAMP := .venv/.complete
SPARK_CLASSES := .venv/spark-classes.jsa
DISTRIBUTION := --dist loadscope --no-loadscope-reorder # tests/conftest.py decides on scopes and their order

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## create .venv with the fieldfare command and everything it can use
	@echo "Ready: $(BIN)/fieldfare --help"

demo: java $(STAMP) ## watch the pipeline on local Spark while subscriptions change, then the live service through a crash
	@$(BIN)/fieldfare demo

check: $(STAMP) lint kernels ## the inner loop, within two minutes: lint, and every test that needs no server, JVM or process
	@FIELDFARE_SEEDS=6 $(BIN)/pytest -n 2 $(DISTRIBUTION) -m "not slow"

test: java $(STAMP) ## check style, types, layers, and run every test
	@$(MAKE) --no-print-directory -j 2 $(SPARK_CLASSES) kernels lint
	@export SPARK_CLASSES=$(SPARK_CLASSES); $(BIN)/pytest -n 4 $(DISTRIBUTION) || { \
		echo "What failed is run once more, alone: real processes may starve beside others, and what fails twice is broken"; \
		$(BIN)/pytest --last-failed --last-failed-no-failures none; }

lint: $(STAMP) ## check style, types and layers only
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet || { echo "Run: $(BIN)/ruff format"; exit 1; }
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports > .venv/lint-imports.log || { cat .venv/lint-imports.log; exit 1; }

kernels: $(STAMP)
	@$(BIN)/python -m tests.compiled_kernels

bench: $(STAMP) ## measure the matching engine beside its peers, on one core
	@$(BIN)/fieldfare bench engine

clean: ## remove everything that these targets made
	@rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist fieldfare-demo
	@find src tests -name __pycache__ -prune -exec rm -rf {} +

$(STAMP): pyproject.toml constraints.txt
	@[ -n "$(PYTHON)" ] && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Python 3.11 or later is missing: install python3.11 and python3.11-venv (Debian, Ubuntu)," \
			"or 'brew install python@3.11'; or name one: make PYTHON=/path/to/python3.11"; exit 1; }
	@[ -x $(BIN)/python ] || "$(PYTHON)" -m venv .venv || { \
		echo "This Python cannot make virtual environments: install python3-venv (Debian, Ubuntu)"; exit 1; }
	@echo "Installing into .venv (once; some minutes with a slow network) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all,test]'
	@touch $@

$(SPARK_CLASSES): $(STAMP) tests/spark_classes.py # makes the tests' JVMs start faster, and they do without if it fails
	@PYTHONPATH=. $(BIN)/python tests/spark_classes.py $@ 2> .venv/spark-classes.log || true

java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version="$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1 || true)"; \
	[ "$${version:-0}" -ge 17 ] || { \
		echo "Java 17 or later is missing (found: $${version:-none}), and Spark needs it: install" \
			"openjdk-17-jre-headless (Debian, Ubuntu), or 'brew install openjdk@17', and set JAVA_HOME"; exit 1; }
