# Every command of this repository. `make` alone explains them.

PYTHON ?= $(or $(shell command -v python3.11),python3)
ENGINE ?= cpu
EXPERIMENT ?= rehearsal$(filter-out -cpu,-$(ENGINE))
MINUTES ?= 2
UPSTREAM ?=

export ENGINE EXPERIMENT UPSTREAM ALERT_EMAIL ACCEPT_NO_ALERTS
unexport PYTHONDONTWRITEBYTECODE PYTHONPATH VIRTUAL_ENV

UV := .venv/bin/uv pip install --quiet
LOCKED := $(UV) --require-hashes
LOCK := .venv/bin/uv pip compile --quiet --generate-hashes --python-version 3.11 --python-platform linux
LOCKS := requirements/build requirements/lambda requirements requirements/dev requirements/cloud requirements/image requirements/audit
# vLLM for CPUs needs the `+cpu` build of torch: from PyTorch's own index, or from the folder of wheels that is named.
WHEELS := $(or $(UV_FIND_LINKS),$(PIP_FIND_LINKS))
TORCH := $(if $(WHEELS),--find-links $(WHEELS),--torch-backend cpu)
VLLM_LOCK := requirements/vllm
CDK := node_modules/.bin/cdk
ALERTS = $(if $(ALERT_EMAIL),"alert_email=$$ALERT_EMAIL") $(if $(ACCEPT_NO_ALERTS),"accept_no_alerts=$$ACCEPT_NO_ALERTS")

.DEFAULT_GOAL := help
.PHONY: help install install-rehearsal install-vllm lock audit rehearse test test-all suite suites chaos fuzz mutate upstream conformance synth deploy destroy bench wheel bundle clean need-python need-node need-preset need-vllm need-alerts

help:
	@cat tools/make/help.txt

# The environments are installed beside each other. All else goes one after the other, even under `make -j`.
TOGETHER := $(MAKE) --no-print-directory --silent --jobs=4 INSTALLS=yes
ifndef INSTALLS
.NOTPARALLEL:
endif

install:
	+@$(TOGETHER) .venv/.installed-dev node_modules/.installed
install-rehearsal:
	+@$(TOGETHER) .venv/.installed node_modules/.installed .rehearsal/cloud/.installed .rehearsal/image/.installed
install-vllm: install-rehearsal .rehearsal/vllm/.models

lock: .venv/.uv
	@for lock in $(LOCKS); do echo "$$lock.txt"; $(LOCK) --output-file $$lock.txt $$lock.in || exit 1; done
	@echo "$(VLLM_LOCK).txt"; $(LOCK) $(TORCH) --excludes requirements/vllm-excludes.txt --output-file $(VLLM_LOCK).txt $(VLLM_LOCK).in
	@$(MAKE) --no-print-directory install install-rehearsal
	@.venv/bin/python -m tools.supply

audit: .tools/.installed node_modules/.installed
	@sh tools/make/audit.sh $(foreach lock,$(LOCKS),--requirement $(lock).txt)

rehearse: need-preset install-rehearsal $(if $(filter rehearsal-vllm rehearsal-account-check,$(EXPERIMENT)),need-vllm install-vllm)
	@.venv/bin/python -m rehearsal "$$EXPERIMENT"

test: install install-rehearsal
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	@said=$$(mktemp); .venv/bin/mypy >$$said 2>&1 & types=$$!; \
	.venv/bin/pytest --numprocesses auto --maxprocesses 4 --dist loadgroup --no-loadscope-reorder; tests=$$?; \
	wait $$types; types=$$?; cat $$said; rm $$said; exit $$((tests + types))

# Suites that take minutes each (tools/suites.py): all that did not pass on this code; one; which passed where.
test-all: install install-rehearsal
	@.venv/bin/python -m tools.suites all $(if $(filter command% environment,$(origin MINUTES)),$(MINUTES),0)

suite: install install-rehearsal $(if $(filter vllm parsers,$(NAME)),install-vllm)
	@.venv/bin/python -m tools.suites run "$(NAME)"

suites:
	@$(PYTHON) -m tools.suites

chaos: install
	@.venv/bin/python -m tests.chaos $(or $(SEED),0) $(if $(filter command% environment,$(origin MINUTES)),$(MINUTES),0)

fuzz: install
	FUZZ_MINUTES=$(MINUTES) .venv/bin/pytest tests/fuzz -o timeout=0

mutate: install
	@.venv/bin/python -m tools.mutate $(if $(filter command% environment,$(origin MINUTES)),--minutes $(MINUTES)) $(if $(ONLY),--only $(ONLY))

upstream: install
	@.venv/bin/python -m tools.upstream $(if $(UPSTREAM),--folder "$$UPSTREAM")

conformance: install
	@CONFORMANCE_KUBECONFIG=$(if $(filter command%,$(origin KUBECONFIG)),"$$KUBECONFIG") .venv/bin/pytest tests/conformance

synth: install
	$(CDK) synth --quiet

deploy: install need-alerts
	$(if $(strip $(ALERTS)),.venv/bin/specdecode configure $(ALERTS))
	$(CDK) deploy SpecDecodeStack

destroy: install
	.venv/bin/specdecode destroy

bench: install-rehearsal
	.rehearsal/image/bin/python benchmarks/engine.py
	.venv/bin/python benchmarks/client_truth.py
	.venv/bin/python benchmarks/client_levels.py
	.venv/bin/python benchmarks/advisor.py
	.venv/bin/python benchmarks/statistics_coverage.py
	.venv/bin/python benchmarks/command_start.py

bundle: .venv/.installed
	@.venv/bin/python -m constructs_lib.storage.bundle

wheel: .venv/.uv
	@.venv/bin/uv build --quiet --no-build-isolation --python .venv/bin/python --out-dir dist .

clean:
	rm -rf .venv .rehearsal .tools .upstream node_modules build dist cdk.out .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/.uv: requirements/build.txt | need-python
	@echo 'Installing into .venv ...'; $(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes --requirement $<
	@touch $@

.venv/.installed: requirements.txt .venv/.uv pyproject.toml
	@$(LOCKED) --python .venv --requirement $<
	@LC_ALL=C.UTF-8 $(UV) --python .venv --no-deps --no-build-isolation --editable .
	@sh tools/make/relative_path.sh && touch $@

.venv/.installed-dev: requirements/dev.txt .venv/.installed
	@$(LOCKED) --python .venv --requirement $<
	@touch $@

.rehearsal/%/.installed: requirements/%.txt .venv/.uv
	@sh tools/make/environment.sh .rehearsal/$*
	@$(LOCKED) --python .rehearsal/$* --requirement $<
	@if [ $* = image ]; then ln -sf ../../../rehearsal/engine/vllm .rehearsal/image/bin/vllm; fi; touch $@

.tools/.installed: requirements/audit.txt .venv/.uv
	@sh tools/make/environment.sh .tools
	@$(LOCKED) --python .tools --requirement $<
	@touch $@

.rehearsal/vllm/.installed: $(VLLM_LOCK).txt .venv/.uv | need-vllm
	@sh tools/make/environment.sh .rehearsal/vllm
	@$(LOCKED) --no-deps $(TORCH) --python .rehearsal/vllm --requirement $<
	@sh tools/make/vllm_version.sh $< .rehearsal/vllm && touch $@

.rehearsal/vllm/.models: .rehearsal/vllm/.installed $(wildcard rehearsal/upstream/*.py rehearsal/engine/weights/*/*)
	@.rehearsal/vllm/bin/python -m rehearsal.upstream.folders rehearsal/engine/weights .rehearsal/vllm/models
	@touch $@

node_modules/.installed: package-lock.json | need-node
	@echo 'Installing into node_modules ...'
	@npm ci --silent --no-audit --no-fund
	@touch $@

need-python:
	@sh tools/make/need_python.sh "$(PYTHON)"

need-node:
	@sh tools/make/need_node.sh

need-alerts: install
	@sh tools/make/need_alerts.sh $(ALERTS)

need-vllm: | .venv/.uv
	@.venv/bin/python -m rehearsal.upstream.machine .rehearsal/vllm

need-preset:
	@sh tools/make/need_preset.sh
