# Each target sets up what it needs in .venv; a fresh machine needs only make and Python 3.11 or newer.
.PHONY: demo test docs docs-serve docs-check docs-deploy release test-slow test-references test-torch test-engines test-oldest test-wheel slice replay coverage constraints fuzz mutants conformance bench bench-peers lint format setup browser device-tools clean
.DELETE_ON_ERROR:

VENV   := .venv
comma  := ,
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip --disable-pip-version-check install --quiet
SETUP  := $(VENV)/.setup
LINT   := $(VENV)/.setup-lint
EXTRAS := dev,onnx,tflite,llm,offload,rpc
# The versions that were tested; `make setup CONSTRAINTS=` takes the newest instead.
CONSTRAINTS := --constraint constraints.txt
PEERS  := .peers/.setup
REFERENCES := .references/.setup
OLDEST := .oldest/.setup
DOCS := .docs/.setup
TORCH := .torch/.setup
ENGINES := .engines/ray/.setup .engines/serve/.setup .engines/kserve/.setup
TORCH_TESTS := tests/frontend/torch tests/frontend/nn tests/codegen/test_abi.py tests/runtime/test_tensor.py
PEERS_PY := PYTHONPATH=src .peers/bin/python
RESULTS := benchmarks/results
# Two processes of two threads each share the cores: pinned workers would wait for each other.
# Each process begins with its half, whole files, and takes from the other's when it is done.
# A worker that dies takes its tests with it; a new one would run into the same, or wait for ever.
# Processes that tests start need not compile our sources again, whatever the environment says.
PYTEST := LOOPWRIGHT_PIN_THREADS=0 PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX="$(CURDIR)/build/bytecode" $(PY) -m pytest -n 2 --dist worksteal --max-worker-restart=0

# The first interpreter that is new enough and can make environments (a pyenv shim may be there and not work).
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3 python; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

demo: $(SETUP)
	@$(PY) -m tools.demo

# SAMPLE=1 make test: all cases of the long tables, not one in n.
test: $(SETUP)
	@$(PYTEST) -m "not slow" $(ARGS)

# What `make test` leaves out.
test-slow: $(SETUP)
	@$(PYTEST) -m slow $(ARGS)

# What is compared with packages that the others do without: TFLite's interpreter and quantizer, estimators.
# In an environment of its own; elsewhere these tests skip.
test-references: $(REFERENCES)
	@$(PYTEST:$(PY)=.references/bin/python) tests/frontend/tflite $(ARGS)
	@.references/bin/python -m tools.estimators

# What needs torch, in an environment of its own; elsewhere these tests skip.
test-torch: $(TORCH)
	@$(PYTEST:$(PY)=.torch/bin/python) $(or $(ARGS),$(TORCH_TESTS))

# Ray and MPI with two ranks, MLServer, KServe, in environments of their own, since engines pin versions; elsewhere
# these tests skip. All listen on loopback alone. MOMENTS: how many workers are killed.
test-engines: $(ENGINES)
	@for engine in $(^D); do $(PYTEST:$(PY)=$$engine/bin/python) $(or $(ARGS),tests/engines tests/serve tests/house/test_readme.py -k "(not test_readme or scale) and not test_zoo and not test_memory") || exit 1; done

# One of the slow checks, by a number: .ci/run takes the commit's, so each has its turn.
slice: $(SETUP)
	@$(PY) -m tools.slices $(N)

# The site, in build/site: pages of docs/, and a reference made from the package. Broken links fail.
docs: $(DOCS)
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=src:. .docs/bin/python -m mkdocs build

docs-serve: $(DOCS)
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=src:. .docs/bin/python -m mkdocs serve --dev-addr 127.0.0.1:8000

# The site in headless Chromium: contrast, texts of pictures, headings, widths, links, errors of the console.
docs-check: docs
	@.docs/bin/python -m tools.check_site

# The site of a version into the branch gh-pages, beside those of other versions; push it afterwards.
docs-deploy: $(DOCS)
	@PYTHONPATH=src:. .docs/bin/mike deploy --update-aliases "$(or $(VERSION),$(error VERSION=0.2 make docs-deploy))" latest

# Wheel and sdist, built twice and tried outside of the checkout on each Python.
release: $(SETUP) test lint
	@$(PIP) build twine
	@$(PY) -m tools.release

# What a change does to the texts of thousands of small programs, beside the merge base with BASE.
replay: $(SETUP)
	@$(PY) -m tools.replay --base $(or $(BASE),main) $(ARGS)

# With the lower bounds of pyproject.toml.
test-oldest: $(OLDEST)
	@$(PYTEST:$(PY)=.oldest/bin/python) -m "not slow" $(or $(ARGS),tests/ir tests/tir/transform)

# The wheel as users install it, without the sources beside it.
test-wheel: | $(PY)
	@"$(PYTHON)" -m venv --clear build/wheel
	@build/wheel/bin/python -m pip --disable-pip-version-check install --quiet $(CONSTRAINTS) '.[dev,onnx]'
	@build/wheel/bin/python -m pytest -o pythonpath=. -m "not slow" $(or $(ARGS),tests/ir)

# What tests run: lines that none does are listed, and marked in build/coverage.
coverage: $(SETUP)
	@$(PYTEST) -m "not slow" --cov loopwright --cov-report term:skip-covered --cov-report html:build/coverage $(ARGS)

# constraints.txt again, with the newest versions for Python 3.11 and newer; then run the tests.
constraints: $(SETUP)
	@$(PIP) uv
	@$(VENV)/bin/uv pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 \
		$(foreach extra,$(subst $(comma), ,$(EXTRAS)) lint,--extra $(extra)) \
		--no-annotate --custom-compile-command "make constraints" --output-file constraints.txt

# Searches for faults: make fuzz ARGS="graphs --count 2000 --seed 7", ARGS="replay FILE", ARGS=--help.
fuzz: $(SETUP)
	@$(PY) -m tools.fuzz $(or $(ARGS),graphs)

# Random faults in our own source: how many of them do the tests of their layer find?
mutants: $(SETUP)
	@$(PY) -m tools.fuzz mutants --count $(or $(N),20) $(ARGS)

# TVM's own tests, from a clone of github.com/apache/tvm: make conformance TVM=CLONE ARGS="--list wide"
conformance: $(SETUP)
	@$(PY) -m tools.conformance "$(TVM)" $(ARGS)

# Everything beside its peers, one after another, then the table of README.md.
bench: $(SETUP)
	@$(PY) -m benchmarks.run $(ARGS)
	@$(PY) -m benchmarks.compile_time
	@$(PY) -m benchmarks.call_overhead
	@$(PY) -m benchmarks.import_time
	@$(PY) -m benchmarks.report

# Eight plain architectures and the zoo beside their peers, in an environment of its own.
bench-peers: $(PEERS)
	@$(PEERS_PY) -m benchmarks.run plain --engines loopwright,onnxruntime,openvino --output $(RESULTS)/plain $(ARGS)
	@$(PEERS_PY) -m benchmarks.run zoo --engines loopwright,onnxruntime --output $(RESULTS)/zoo $(ARGS)
	@$(PEERS_PY) -m benchmarks.plot $(RESULTS)/plain.json docs/plain.svg
	@$(PEERS_PY) -m benchmarks.plot $(RESULTS)/zoo.json docs/zoo.svg

lint: $(LINT)
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/lint-imports --no-cache --no-logo
	@$(VENV)/bin/pyright --level error
	@$(PYTEST) tests/house tests/typing $(ARGS)

format: $(SETUP)
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

setup: $(SETUP)

# What the tests of the explorer's page need (Debian, as root).
browser: $(SETUP)
	@apt-get install -y chromium chromium-driver
	@$(PIP) selenium

# What the tests of C for devices need: compilers for Cortex-M and aarch64, and qemu (Debian, as root).
device-tools:
	@apt-get install -y cmake gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .import_linter_cache

$(PY):
	@test -n "$(PYTHON)" || { echo "Loopwright needs Python 3.11 or newer with the venv module; got none on PATH. Instead: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "setting up $(VENV) with $(PYTHON)"
	@"$(PYTHON)" -m venv $(VENV)

$(SETUP): pyproject.toml constraints.txt | $(PY)
	@$(PIP) $(CONSTRAINTS) --editable '.[$(EXTRAS)]'
	@touch $@

$(PEERS): pyproject.toml | $(PY)
	@echo "setting up .peers"
	@"$(PYTHON)" -m venv .peers
	@.peers/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[onnx,bench]'
	@touch $@

$(REFERENCES): pyproject.toml | $(PY)
	@echo "setting up .references"
	@"$(PYTHON)" -m venv .references
	@.references/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[dev,onnx,tflite,references]'
	@touch $@

$(TORCH): pyproject.toml | $(PY)
	@echo "setting up .torch"
	@"$(PYTHON)" -m venv .torch
	@.torch/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[dev,onnx,tflite,torch]'
	@touch $@

$(DOCS): pyproject.toml | $(PY)
	@echo "setting up .docs"
	@"$(PYTHON)" -m venv .docs
	@.docs/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[onnx,tflite,llm,docs]'
	@touch $@

# mpich: a launcher of MPI in a wheel.
.engines/ray/.setup: WITH := ,mpi]' mpich
$(ENGINES): pyproject.toml | $(PY)
	@echo "setting up $(@D)"
	@"$(PYTHON)" -m venv $(@D)
	@$(@D)/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[dev,onnx,$(notdir $(@D))$(or $(WITH),]')
	@touch $@

# uv: pip has no way to ask for the oldest.
$(OLDEST): pyproject.toml | $(PY)
	@echo "setting up .oldest"
	@"$(PYTHON)" -m venv .oldest
	@.oldest/bin/python -m pip --disable-pip-version-check install --quiet uv
	@.oldest/bin/uv pip install --quiet --python .oldest/bin/python --resolution lowest-direct --editable '.[$(EXTRAS)]'
	@touch $@

$(LINT): pyproject.toml $(SETUP)
	@$(PIP) $(CONSTRAINTS) --editable '.[$(EXTRAS),lint]'
	@touch $@
