# One command checks everything: `make test`. It installs what it needs (rustfmt and clippy through rustup, a C
# compiler through apt-get) where that is missing, and uses two jobs; `make test JOBS=8` uses eight.

JOBS ?= 2
export CARGO_BUILD_JOBS = $(JOBS)
export RUST_TEST_THREADS = $(JOBS)
export CARGO_TERM_COLOR ?= auto

# The program with the features that its dependencies have in the Python package too: maturin then finds all but the
# package itself built.
RELEASE := cargo build --locked --release -p ftlab -p ftlab-python --bin ftlab

.DEFAULT_GOAL := help

.PHONY: help
help:
	@echo 'make test          everything below but bench, as continuous integration does'
	@echo 'make quick         what to run after every change: formatting, lints, the tests of flash and the schemes'
	@echo 'make fmt           formatting'
	@echo 'make clippy        lints, warnings are errors'
	@echo 'make no-std        the core crates build without the standard library'
	@echo 'make unit          tests of all crates, of the README and of the tree itself'
	@echo 'make docs          documentation of the crates, warnings are errors, and target/schemes, a page per scheme'
	@echo 'make e2e           the optimised program runs its default comparison'
	@echo 'make conformance   every scheme under more than 100,000 power cuts, cases that failed once, and a seed of every'
	@echo '                   scheme that nobody has seen'
	@echo 'make fresh         FRESH=4 such seeds'
	@echo 'make mutants       how many planted bugs the checker catches with an eighth of its seeds and a twentieth of its'
	@echo '                   cuts; takes hours. SEEDS=0..256 CUTS=80000 for all of them'
	@echo 'make soak          power cuts on ever new seeds for MINUTES=60, totals kept in target/soak.json; then 200 kills'
	@echo '                   of a server under load for each scheme, 10^7 frames of BCH; a few minutes'
	@echo 'make fuzz          every fuzz target for TIME seconds (60), with coverage guidance'
	@echo 'make vectors       test vectors of the codes, from other implementations of them'
	@echo 'make captures      records all traces of docs/recordings.md anew; needs root; SIZE=minute|full'
	@echo 'make python        the Python package: wheel, stubs, and its tests in a fresh environment'
	@echo 'make wheel         the optimised wheel, in target/wheels'
	@echo 'make site          the documentation as a site in target/site, to be read without a network'
	@echo 'make bench         throughput; takes minutes and wants an idle machine'

.PHONY: test
test: fmt clippy no-std unit docs e2e conformance python site

# The schemes against every medium of the simulator take minutes to compile, so they are linted here and not run.
.PHONY: quick
quick: fmt clippy
	cargo test --locked --lib -p ftlab-flash -p ftlab-ftl

.PHONY: tools
tools:
	@command -v cc >/dev/null || { apt-get update && apt-get install -y build-essential; }
	@cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
	@cargo clippy --version >/dev/null 2>&1 || rustup component add clippy

# Programs that served images are tested with. A test whose programs are missing says so and is skipped, so that this
# may fail, for want of root or of a network.
CLIENTS := fio fuse3 libnbd-bin nbdkit qemu-utils e2fsprogs xfsprogs postmark sqlite3

.PHONY: clients
clients:
	@for program in fio fusermount3 nbdinfo nbdfuse nbdkit qemu-img mkfs.ext4 mkfs.xfs postmark sqlite3; do \
	  PATH=$$PATH:/usr/sbin:/sbin command -v $$program >/dev/null || missing=1; done; \
	  [ -z "$$missing" ] || { apt-get update && apt-get install -y $(CLIENTS); } || \
	  echo 'some of $(CLIENTS) could not be installed: tests that need them are skipped'

# Implementations of the codes that are not ours, for a test that says so and is skipped without them.
ORACLES := bchlib galois ldpc numpy

.PHONY: oracles
oracles:
	@target/venv/bin/python3 -c 'import bchlib, galois, ldpc, numpy' 2>/dev/null || \
	  { python3 -m venv target/venv && target/venv/bin/pip install --quiet $(ORACLES); } || \
	  echo 'some of $(ORACLES) could not be installed: the test that needs them is skipped'

.PHONY: vectors
vectors: tools oracles
	cargo build --locked
	target/venv/bin/python3 scripts/code-vectors.py target/debug/ftlab > target/vectors.txt
	mv target/vectors.txt crates/reliability/data/vectors.txt

.PHONY: fmt
fmt: tools
	cargo fmt --all --check

.PHONY: clippy
clippy: tools
	cargo clippy --locked --workspace --all-targets -- -D warnings

.PHONY: no-std
no-std: tools
	cargo check --locked -p ftlab-bare
	cargo run --locked -p ftlab-ftl --example firmware

.PHONY: unit
unit: tools clients oracles
	cargo test --locked --workspace

.PHONY: docs
docs: tools
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps
	$(RELEASE)
	target/release/ftlab schemes --markdown target/schemes

.PHONY: e2e
e2e: tools
	$(RELEASE)
	target/release/ftlab compare

.PHONY: conformance
CHECKED := simple page dftl dftl-e tpftl cftl lsftl lsftl-e cdftl sftl scftl scftl-a cast scftl-log lazyftl \
	block nftl bast aftl fast last rose superblock hybridlog rose-log

conformance: tools
	$(RELEASE)
	scripts/checks target/release/ftlab conformance $(CHECKED)
	scripts/checks target/release/ftlab replay
	@# Nobody else runs a soak: one of no minutes tells that it begins.
	scripts/checks target/release/ftlab soak 0 page
	@# What nobody has seen may fail: the case is told, and kept in target/failing.
	scripts/checks target/release/ftlab fresh 1 $(CHECKED)

.PHONY: fresh
FRESH ?= 4
fresh: tools
	$(RELEASE)
	scripts/checks target/release/ftlab fresh $(FRESH) $(CHECKED)

# One build has every planted bug in it, and results are kept: what is asked again was changed. A bug that escapes takes
# all of the cuts on each of its schemes.
.PHONY: mutants
SEEDS ?= 0..32
CUTS ?= 4000
mutants: tools
	mutants/run --jobs $(JOBS) --seeds $(SEEDS) --cuts $(CUTS)

.PHONY: soak
MINUTES ?= 60
soak: tools
	$(RELEASE)
	scripts/checks target/release/ftlab soak $(MINUTES) $(CHECKED)
	FTLAB_SOAK=200 cargo test --locked -p ftlab --test soak --test codes -- --nocapture

# A workspace of its own, so that nothing else builds it: libFuzzer is C++.
TIME ?= 60

.PHONY: fuzz
fuzz: tools
	scripts/fuzz $(TIME)

.PHONY: captures
captures:
	$(RELEASE)
	python3 scripts/captures --install $(if $(filter full,$(SIZE)),,--into crates/recordings/data)

# maturin builds into the same target directory, with the settings of pyproject.toml. An environment is made anew for the
# tests, so that they find what the wheel brings and nothing else.
MATURIN := target/venv/bin/maturin
WHEEL_TESTS := pytest pytest-xdist duckdb
PYTHON_PROFILE ?= release

.PHONY: python-tools
python-tools: tools
	@test -x target/venv/bin/python3 || python3 -m venv target/venv
	@$(MATURIN) --version >/dev/null 2>&1 || target/venv/bin/pip install --quiet 'maturin>=1.16,<2'

.PHONY: wheel
wheel: python-tools
	$(MATURIN) build --release --strip --out target/wheels

.PHONY: python
python: python-tools
	rm -rf target/wheels target/venv-wheel
	$(MATURIN) build --profile $(PYTHON_PROFILE) --out target/wheels
	$(MATURIN) generate-stubs --profile $(PYTHON_PROFILE) --out target/stubs
	@diff -uBw python/ftlab/_native.pyi target/stubs/ftlab/_native.pyi || \
	  { echo 'python/ftlab/_native.pyi is stale: make stubs'; exit 1; }
	python3 -m venv target/venv-wheel
	target/venv-wheel/bin/pip install --quiet "$$(ls target/wheels/*.whl)[all]" $(WHEEL_TESTS)
	FTLAB=$(CURDIR)/target/$(PYTHON_PROFILE:dev=debug)/ftlab target/venv-wheel/bin/pytest -q -n $(JOBS) --dist worksteal

.PHONY: stubs
stubs: python-tools
	$(MATURIN) generate-stubs --profile dev --out target/stubs
	cp target/stubs/ftlab/_native.pyi python/ftlab/_native.pyi

# mkdocs 2 drops the plugins that the theme needs. The theme would fetch the worker that searches pages opened as files
# from a server; the site brings it along.
SITE := 'mkdocs-material==9.8.1' 'mkdocs<2'
WORKER := iframe-worker-1.0.4
WORKER_SHA256 := e8e412dbcfea9b7e31b5ffa288d7b6035915e714c542f4176a0cdbe262fc9609

.PHONY: site-tools
site-tools:
	@test -x target/venv-site/bin/python3 || python3 -m venv target/venv-site
	@target/venv-site/bin/pip install --quiet $(SITE)
	@test -f target/$(WORKER).tgz || command -v npm >/dev/null || { apt-get update && apt-get install -y npm; }
	@test -f target/$(WORKER).tgz || (cd target && npm pack --silent $(subst worker-,worker@,$(WORKER)))
	@tar -xzOf target/$(WORKER).tgz package/shim/index.js > target/iframe-worker.js
	@echo '$(WORKER_SHA256)  target/iframe-worker.js' | sha256sum --check --quiet

.PHONY: site
site: tools site-tools
	$(RELEASE)
	target/venv-site/bin/python3 scripts/site.py target/release/ftlab target

.PHONY: bench
bench: tools
	cargo bench --locked --workspace
