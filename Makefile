# SPDX-License-Identifier: BSD-2-Clause
# Every target creates what it needs: .venv from the package index, everything else in .cache and build.
# `make` without a target lists the targets.

SHELL := /bin/sh
.DEFAULT_GOAL := help
# Recipes use all cores themselves.
.NOTPARALLEL:

# Tools come from .venv first and keep their files inside the clone.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
export ANSIBLE_HOME := $(CURDIR)/.cache/ansible
# The copies below .cache do not belong to the clone's git repository.
export GIT_CEILING_DIRECTORIES := $(CURDIR)
export LC_ALL ?= C.UTF-8
# Without bytecode, each run of ansible-playbook compiles the collection again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?=
VENV := .venv/.made-for
PY := .venv/bin/python
TREE := .cache/tree/ansible_collections/runwhere/gpuctl
# Three at a time: of two, one often waits for a clock, and leaves a core idle. The tests of one file stay together,
# because they share a simulated cluster. On a cluster given by GPUCTL_TEST_KUBECONFIG they run one after another: tests of
# pools and of jobs move the same nodes.
PYTEST := -m pytest -n 3 --dist loadfile
ARGS ?=

# $(call if-changed,PATHS,TARGET): make the target if one of the paths has changed since the branch left main. ARGS are for
# the tests of `make test`.
define if-changed
	changed=$$($(PY) -m tools.changed $(1)) || exit 1; \
	if [ -n "$$changed" ]; then $(MAKE) --no-print-directory $(2) ARGS=; \
	else echo 'Not changed, so `make $(2)` is left out: $(1)'; fi
endef

.PHONY: help
help: ## List the targets
	@echo 'runwhere.gpuctl: GPU jobs on Kubernetes, from Ansible. Targets:'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo 'The first target that needs .venv creates it (Python 3.11 to 3.13; PYTHON=/path/to/python chooses one).'
	@echo 'ARGS=… goes to pytest: make unit ARGS="-k table". GPUCTL_TEST_KUBECONFIG=/path make integration uses that cluster.'

# ---- Try it

.PHONY: demo
demo: $(VENV) collections-path ## See in half a minute what this does: jobs, plan, drift and GPU-hours on a simulated cluster
	@$(PY) -m tests.demo.run

.PHONY: cluster
cluster: $(VENV) collections-path $(if $(MONITORING),programs) ## Keep a simulated GPU cluster running (NODES=20 MIXED=1 MONITORING=1 PORT=6443 KUBECONFIG_FILE=path)
	@$(PY) -m tests.demo.cluster $(if $(NODES),--nodes '$(NODES)') $(if $(MIXED),--mixed) $(if $(MONITORING),--monitoring) \
		$(if $(PORT),--port '$(PORT)') \
		$(if $(KUBECONFIG_FILE),--kubeconfig '$(KUBECONFIG_FILE)')

.PHONY: clusters
clusters: $(VENV) collections-path ## Keep N=3 simulated GPU clusters running, with an inventory of them (NODES=20)
	@$(PY) -m tests.demo.cluster --clusters '$(or $(N),3)' $(if $(NODES),--nodes '$(NODES)') \
		$(if $(KUBECONFIG_FILE),--kubeconfig '$(KUBECONFIG_FILE)')

# ---- Check it

# check while you work, test before you push, test-all every night. CONTRIBUTING.md says what each takes.

.PHONY: check
check: lint-python $(VENV) ## Style, types, unit tests, and the integration tests of what has changed
	$(PY) $(PYTEST) -m 'not nightly' tests/unit $$($(PY) -m tools.affected) $(ARGS)

.PHONY: test
test: checks kubesim-if-changed ## Everything a pull request needs
	$(PY) $(PYTEST) -m 'not nightly' --relevant $(ARGS)

# All but the tests. Each of the three keeps one core busy at a time.
.PHONY: checks
checks: $(VENV) collections-path
	@mkdir -p build; failed=; \
	$(MAKE) --no-print-directory chaos-short >build/chaos-short.log 2>&1 & chaos=$$!; \
	$(MAKE) --no-print-directory sanity-if-changed >build/sanity.log 2>&1 & sanity=$$!; \
	$(MAKE) --no-print-directory lint docs-if-changed torch programs || failed=1; \
	wait $$chaos || failed=1; wait $$sanity || failed=1; cat build/chaos-short.log build/sanity.log; [ -z "$$failed" ]

# Of what ships, and what the site is made of. They run as a whole every night.
SANITY_OF := extensions galaxy.yml meta playbooks plugins requirements.txt roles
DOCS_OF := docs plugins roles playbooks extensions tools

.PHONY: sanity-if-changed
sanity-if-changed: $(VENV)
	@$(call if-changed,$(SANITY_OF),sanity)

.PHONY: docs-if-changed
docs-if-changed: $(VENV)
	@$(call if-changed,$(DOCS_OF),docs)

.PHONY: test-all
test-all: torch programs lint sanity docs importer translation molecule kubesim integration-modules test-environments chaos-short ## The rest as well: other versions, Galaxy's importer, molecule, scale
	$(PY) $(PYTEST) $(ARGS)

.PHONY: unit
unit: $(VENV) ## Unit tests
	$(PY) $(PYTEST) tests/unit $(ARGS)

.PHONY: torch
torch: .cache/torch/.made ## PyTorch for the tests that start real processes, half a minute the first time

# Without it, these tests are skipped. Its index may be out of reach, and pip goes on with the others.
.cache/torch/.made: tests/torch.txt $(VENV)
	@echo 'Installing tests/torch.txt into .cache/torch'
	@rm -rf .cache/torch
	@if $(PY) -m pip install --quiet --disable-pip-version-check --retries 1 --target .cache/torch -r $<; then touch $@; \
	else rm -rf .cache/torch; echo 'PyTorch cannot be installed; the tests that need it are skipped' >&2; fi

# Where they cannot be had, it says so, and the tests that need them are skipped.
.PHONY: programs
programs: $(VENV) ## Prometheus and Alertmanager for the tests that run them, from Debian packages unless on PATH
	@$(PY) -m tools.debian_programs || true

.PHONY: integration
integration: $(VENV) ## Playbooks and modules against a simulated cluster (or GPUCTL_TEST_KUBECONFIG)
	$(PY) $(PYTEST) $(if $(GPUCTL_TEST_KUBECONFIG),-n 0) tests/integration $(ARGS)

.PHONY: integration-modules
integration-modules: $(VENV) ## The same with a process for each command and each task, as where the connection is not local
	GPUCTL_FAST_PATH=0 GPUCTL_TEST_PROCESSES=1 $(PY) $(PYTEST) $(if $(GPUCTL_TEST_KUBECONFIG),-n 0) -m 'not nightly' tests/integration $(ARGS)

.PHONY: redteam
redteam: $(VENV) ## Attacks by tenants, nodes, servers and manifest authors (also on GPUCTL_TEST_KUBECONFIG)
	$(PY) $(PYTEST) $(if $(GPUCTL_TEST_KUBECONFIG),-n 0) tests/redteam $(ARGS)

.PHONY: fuzz
fuzz: $(VENV) collections-path ## Load N=50000 damaged manifests; API servers judge what is accepted (also GPUCTL_TEST_KUBECONFIG)
	$(PY) tests/fuzz/run.py $(if $(N),--mutants '$(N)') $(ARGS)

.PHONY: fit
fit: $(VENV) collections-path ## Hold gpuctl_fit_info to a scheduler: N=200 pairs of a random state and a job, from SEED=1 (GPUCTL_FIT_KUBECONFIG)
	N='$(N)' SEED='$(SEED)' $(PY) tests/fit/run.py

.PHONY: kubesim
kubesim: $(VENV) ## Tests of the simulated API server, recordings of a real one among them
	$(PY) $(PYTEST) kubesim/tests $(ARGS)

.PHONY: kubesim-package
kubesim-package: ## The same with kubesim alone, installed as its users install it (PYTHON=python3.10)
	rm -rf .venvs/kubesim
	$(or $(PYTHON),python3) -m venv .venvs/kubesim
	.venvs/kubesim/bin/pip install --quiet --disable-pip-version-check './kubesim[test]'
	cd kubesim && ../.venvs/kubesim/bin/python $(PYTEST) tests $(ARGS)

.PHONY: kubesim-if-changed
kubesim-if-changed: $(VENV)
	@$(call if-changed,kubesim,kubesim)

.PHONY: chaos
chaos: $(VENV) collections-path ## Inject faults, kill runs and let writers race (docs/reliability.md; ARGS="--case …" for one case)
	$(PY) tests/chaos/run.py $(ARGS)

.PHONY: chaos-short
chaos-short: $(VENV) collections-path ## A small fixed part of that (tests/chaos/short.yaml)
	$(PY) tests/chaos/run.py --short

.PHONY: month
month: $(VENV) collections-path programs ## A month of 64 nodes and 40 people, with and without limits, reclaim and advice (docs/month.md; ARGS="--days 7")
	$(PY) tests/month/run.py $(ARGS)

.PHONY: real
real: $(VENV) collections-path ## Jobs on real kubelets: GPUCTL_REAL_KUBECONFIG=/path (CONTRIBUTING.md lists the other variables)
	$(PY) -m pytest -n 0 tests/real $(ARGS)

.PHONY: awx
awx: $(VENV) collections-path ## awx/ in a real AWX: GPUCTL_TEST_AWX=https://… (CONTRIBUTING.md lists the other variables)
	$(PY) -m pytest -n 0 tests/awx $(ARGS)

.PHONY: molecule
molecule: $(VENV) collections-path ## Roles and playbooks by molecule, on simulated clusters (SCENARIO=quota for one of them)
	ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/.cache/collections molecule test $(if $(SCENARIO),-s '$(SCENARIO)',--all)

.PHONY: test-environments
test-environments: $(VENV) ## Tests with other versions of Python and the libraries (ENVIRONMENTS=oldest for one; tests/environments.yml)
	$(PY) -m tools.environments $(or $(ENVIRONMENTS),all) $(ENVIRONMENT_TESTS) $(ARGS)

ENVIRONMENT_TESTS := -n 2 --dist loadfile -m 'not nightly'

.PHONY: bench
bench: $(VENV) collections-path ## Compare with kubernetes.core and kubectl, and write docs/performance.md (tests/bench/run.py says more)
	$(PY) tests/bench/run.py

.PHONY: lint-python
lint-python: $(VENV) collections-path
	ruff check .
	ruff format --check .
	mypy

.PHONY: lint
lint: lint-python tree ## Style, types, licenses, YAML and documentation
	shellcheck .ci/run tools/*.sh extras/*.sh
	$(PY) -m tools.workflows
	cd $(TREE) && yamllint --strict .
	cd $(TREE) && PYTHONDONTWRITEBYTECODE=1 ANSIBLE_COLLECTIONS_PATH=$(CURDIR)/.cache/tree ansible-lint --offline
	cd $(TREE) && reuse lint --lines
	cd $(TREE) && antsibull-changelog lint
	cd $(TREE) && antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs=self .

.PHONY: importer
importer: collection ## Check the tarball with Galaxy's importer and ansible-builder
	$(PY) -m tools.importer

.PHONY: sanity
sanity: $(VENV) ## ansible-test sanity, without Docker (ARGS="--test import" for one test)
	$(PY) -m tools.sanity $(ARGS)

.PHONY: bare
bare: ## Needs root and debootstrap: a first hour on a bare Debian (SUITE=trixie ACCOUNT=root RUN='make test')
	tools/bare_machine.sh '$(or $(SUITE),bookworm)' '$(or $(ACCOUNT),somebody)' $(or $(RUN),tools/first_hour.sh)

.PHONY: translation
translation: $(VENV) ## Check that README.zh-CN.md is up to date with README.md; CI runs this nightly
	$(PY) -m tools.translation_lag

# ---- Make it

.PHONY: collection
collection: $(VENV) ## Build the collection's tarball into build/, of the files that tools/tree.py lists
	@$(PY) -m tools.tree shipped
	ansible-galaxy collection build --force --output-path build .cache/shipped/ansible_collections/runwhere/gpuctl

.PHONY: release
release: $(VENV) ## Build and check what a release consists of, into build/release (TAG=v1.2.0; without it, a rehearsal)
	$(PY) -m tools.release check $(if $(TAG),'$(TAG)')
	$(MAKE) --no-print-directory importer
	$(PY) -m tools.release bundle

.PHONY: schemas
schemas: $(VENV) collections-path ## Write schemas/*.json, the guide to manifests and accelerators/profiles.py
	$(PY) -m tools.generate_schemas
	$(PY) -m tools.generate_profiles
	$(PY) -m tools.generate_reference

.PHONY: recording
recording: $(VENV) collections-path ## Record what README.md shows: docs/terminal.svg and docs/sft.kubernetes.yaml
	$(PY) -m tests.demo.record

.PHONY: docs
docs: $(VENV) tree ## Build the documentation site into build/docs/html; a warning fails
	$(PY) -m tools.docs

.PHONY: changelog
changelog: $(VENV) collections-path ## Write CHANGELOG.md from changelogs/fragments for the version in galaxy.yml
	cd .cache/collections/ansible_collections/runwhere/gpuctl && antsibull-changelog release --update-existing --reload-plugins

.PHONY: clean
clean: ## Remove what the other targets created, except .venv and .venvs
	rm -rf .cache build tests/output .mypy_cache .pytest_cache .ruff_cache .ansible
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean ## Remove the virtual environments too
	rm -rf .venv .venvs

# ---- Shared prerequisites

.PHONY: collections-path
collections-path: $(VENV)
	@$(PY) conftest.py

.PHONY: tree
tree: $(VENV)
	@$(PY) -m tools.tree

# A virtual environment has its own path in its scripts: create it again when the clone was moved or copied.
ifneq ($(shell cat $(VENV) 2>/dev/null),$(CURDIR))
.PHONY: $(VENV)
endif

$(VENV): requirements.txt tests/requirements.txt tools/requirements.txt kubesim/pyproject.toml
	@if [ -f $@ ] && [ "$$(cat $@)" != "$(CURDIR)" ]; then echo 'The clone has moved: creating .venv again'; rm -rf .venv; fi
	@[ -x $(PY) ] || { \
		for python in $(PYTHON) python3.11 python3.12 python3.13 python3; do \
			"$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null && break; \
			python=; \
		done; \
		[ -n "$$python" ] || { echo 'Python 3.11, 3.12 or 3.13 not found. Install one, or name it: make PYTHON=/path/to/python' >&2; exit 1; }; \
		echo "Creating .venv with $$("$$python" -V)"; \
		"$$python" -m venv .venv || { rm -rf .venv; exit 1; }; }
	@echo 'Installing tools/requirements.txt into .venv (a minute or two the first time)'
	@$(PY) -m pip install --quiet --disable-pip-version-check -r tools/requirements.txt
	@printf '%s\n' "$(CURDIR)" >$@
