# SPDX-License-Identifier: Apache-2.0
# Short names for common tasks; Meson and ninja do the work.
# `make setup`, `make demo` and the targets that run tests first install missing packages, and name
# them. `make` and `make install` only name missing packages (tools/setup.sh).

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
FUZZ_PART ?= 1/1
FLAKE_RUNS ?= 200
HOURS ?= 1

# The architecture of `make deb`: amd64, arm64 or other (default: that of this machine), and the steps of
# `make release-check` (default: all).
ARCH ?=
STEPS ?=

# Build folders or git revisions that `make ab` and `make bench` compare, and options of tools/ab.py.
A ?=
B ?=
AB ?=
ABFLAGS ?=

SANITIZED_FACTOR = 5

RUN = tools/run-tests --build

# Keeps one processor more busy than there are, because tests also wait for the disk.
BUSY = --jobs=$$(($$(nproc) + 1))

# Compilers run through ccache, and mold is the linker, if they are installed.
CCACHE = $(shell command -v ccache)
LINKER = $(if $(shell command -v mold),CC_LD=mold)
WITH_GCC = CC="$(CCACHE) gcc" $(LINKER)
WITH_CLANG = CC="$(CCACHE) clang" $(LINKER)

# A developer build includes the tests and treats warnings as errors.
DEVELOPER = meson setup -Ddeveloper=true --werror
# Debug information that stays beside the objects (-gsplit-dwarf) saves a third of the time to link 240 tests again.
SPLIT = -Dc_args=-gsplit-dwarf
# Sanitizers need only line numbers as debug information (-g1), which saves a tenth of their builds. -O1 and checks
# that end the program compile in half of the time of -O2 and checks that could continue, and run as fast.
ASAN = --optimization=1 -Db_sanitize=address,undefined -Db_lundef=false -Dc_args='-g1 -fno-sanitize-recover=all'
TSAN = --optimization=1 -Db_sanitize=thread -Db_lundef=false -Dc_args=-g1
TEST_BUILDS = build-gcc/build.ninja build-asan/build.ninja build-tsan/build.ninja

.DEFAULT_GOAL := all
.PHONY: all abi api-docs help demo check test full record mutants coverage install asan tsan clang flakes fuzz bench ab amd64 changed cross \
	deb tarball release-check format clean screenshots docs sizing soak setup setup-test needs

all: build/build.ninja ## build the program and the library
	ninja -C build

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: setup ## show the main features, in a minute
	$(MAKE) all
	ninja -C build sim/holdfast-sim
	sh tools/demo.sh build

check: setup-test build-gcc/build.ninja ## the quick tests (1 min): unit tests, local stores, corpora, lint
	$(RUN) $(BUSY) --budget=check --waiting=14 build-gcc:check

changed: setup-test build-gcc/build.ninja ## the tests of check and test that an uncommitted change can affect
	$(RUN) --changed build-gcc:check,test

test: setup-test ## every test that a change must pass (11 min): check, simulator, servers, sanitizers
	$(MAKE) --no-print-directory --jobs=3 $(TEST_BUILDS)
	ninja -C build-gcc
	$(RUN) $(BUSY) --budget=test build-gcc:check,test \
		build-asan:asan:$(SANITIZED_FACTOR) build-tsan:tsan:$(SANITIZED_FACTOR)

full: setup-test $(TEST_BUILDS) build-clang/build.ninja ## test, plus the long versions of the tests (75 min)
	@sh tools/setup.sh full
	@sh tools/setup.sh release
	$(RUN) --budget=full build-gcc:check,test,full build-clang:check,test,-source \
		build-asan:asan,check,test,leaks,-source:$(SANITIZED_FACTOR) build-tsan:tsan:$(SANITIZED_FACTOR)
	$(MAKE) mutants

record: setup-test build-gcc/build.ninja ## the longest runs; the log is kept in docs/evidence
	sh tools/record.sh $(RUN) build-gcc:record

mutants: setup-test ## break each rule of src/base/rule.h; a checker of the simulator must notice (25 min)
	test -f build-mutants/build.ninja || \
		$(WITH_GCC) meson setup build-mutants --buildtype=release -Dmutants=true
	ninja -C build-mutants sim/holdfast-sim
	tools/mutants.py build-mutants/sim/holdfast-sim

coverage: setup-test ## run check and test, and report which lines and branches of src they cover
	test -f build-coverage/build.ninja || \
		$(WITH_GCC) meson setup build-coverage -Ddeveloper=true --buildtype=debug -Db_coverage=true \
		-Dc_args=-fprofile-update=atomic
	sh tools/coverage.sh build-coverage $(RUN) build-coverage:check,test:4

# The build folder of `make all`, so that nothing is compiled twice. Meson's own prefix is /usr/local.
install: needs build/build.ninja ## install under DESTDIR and PREFIX
	test "$$(cat build/prefix 2>/dev/null || echo /usr/local)" = "$(abspath $(PREFIX))" || \
		{ meson configure build -Dprefix=$(abspath $(PREFIX)) && echo $(abspath $(PREFIX)) >build/prefix; }
	ninja -C build
	DESTDIR=$(DESTDIR) meson install -C build --no-rebuild

asan: setup-test build-asan/build.ninja ## check under AddressSanitizer and UBSan
	$(RUN) build-asan:asan:$(SANITIZED_FACTOR)

tsan: setup-test build-tsan/build.ninja ## the threaded tests under ThreadSanitizer
	$(RUN) build-tsan:tsan:$(SANITIZED_FACTOR)

clang: setup-test build-clang/build.ninja ## check, compiled by clang
	$(RUN) build-clang:check,-source

flakes: setup-test build-gcc/build.ninja ## each timing-dependent test FLAKE_RUNS times, beside two busy loops
	HOLDFAST_CASES=timed sh tools/busy.sh 2 $(RUN) --repeat=$(FLAKE_RUNS) --jobs=4 build-gcc:timed:4

fuzz: setup-test build-fuzz/build.ninja ## run each fuzzer, or a FUZZ_PART of them, for FUZZ_SECONDS; the corpus grows
	ninja -C build-fuzz
	sh tools/fuzz.sh build-fuzz $(FUZZ_SECONDS) $(FUZZ_PART)

bench: setup-test build-bench/build.ninja ## check the performance targets; needs an idle machine; AB=REVISION
	@sh tools/setup.sh bench
	ninja -C build-bench benches
	sh tools/bench.sh build-bench $(AB)

sizing: build/build.ninja ## simulate fleets of up to 10,000 workers; the figures go into docs/sizing.md (10 min)
	ninja -C build sim/holdfast-sim
	tools/sizing.py build/sim/holdfast-sim

soak: setup-test build-gcc/build.ninja ## everything at once on one Ceph bucket, with faults, for HOURS (default: 1)
	ninja -C build-gcc src/cli/holdfast tests/txn_worker
	HOLDFAST_PROGRAM=$(CURDIR)/build-gcc/src/cli/holdfast HOLDFAST_TEST_PROGRAMS=$(CURDIR)/build-gcc/tests \
		python3 tests/soak.py --hours $(HOURS) --out build-soak

ab: setup-test build-bench/build.ninja ## is B (default: this tree) slower than A? A=REVISION_OR_BUILD [B=...]
	@test -n "$(A)" || { echo "make ab: A is missing; usage: make ab A=REVISION_OR_BUILD" >&2; exit 2; }
	$(if $(B),,ninja -C build-bench benches)
	tools/ab.py $(ABFLAGS) $(A) $(or $(B),build-bench)

abi: setup-test ## record the library's interface again (tests/abi), after an intended change
	tests/abi_test.py record

api-docs: setup-test build-gcc/build.ninja ## regenerate docs/api.md, docs/python.md and the Python interface
	tools/api-docs.py
	bindings/python/tools/make_abi.py
	ninja -C build-gcc src/libholdfast.so.0
	HOLDFAST_LIBRARY=build-gcc/src/libholdfast.so.0 bindings/python/tools/make_reference.py

screenshots: setup-test build-gcc/build.ninja ## make the pictures of docs/: the dashboard, and top (1 min)
	ninja -C build-gcc src/cli/holdfast src/serve/holdfast-serve src/top/holdfast-top
	node tools/screenshots.mjs build-gcc

docs: setup-test build-gcc/build.ninja ## the documents as a site, in build-docs
	ninja -C build-gcc src/cli/holdfast
	tools/site.py build-gcc/src/cli/holdfast build-docs

cross: ## build for the other one of amd64 and arm64, and run unit tests under qemu
	sh tools/cross.sh

amd64: cross # its name when all builds began on arm64

deb: ## build the Debian packages into build-deb, and check them with lintian (3 min); ARCH=other
	sh tools/deb.sh $(ARCH)

tarball: ## build self-contained programs for arm64 and amd64 into build-tarball
	sh tools/tarball.sh

release-check: ## run everything on a bare Debian system (many hours, resumable); STEPS="deb docs"
	@sh tools/setup.sh release
	tools/release-check.py $(STEPS)

format: setup-test ## clang-format all C files
	sh tools/c-files.sh | xargs clang-format -i

clean: ## remove all build folders
	rm -rf build build-*/

setup: ## install the packages needed to build
	@sh tools/setup.sh build

needs:
	@sh tools/setup.sh --check build

setup-test:
	@sh tools/setup.sh test

# Without debug information, which takes a sixth of the time of a build.
build/build.ninja: | needs
	meson setup build -Ddebug=false

build-gcc/build.ninja: | setup-test
	$(WITH_GCC) $(DEVELOPER) build-gcc $(SPLIT)

build-clang/build.ninja: | setup-test
	$(WITH_CLANG) $(DEVELOPER) build-clang

build-asan/build.ninja: | setup-test
	$(WITH_CLANG) $(DEVELOPER) build-asan $(ASAN)

build-tsan/build.ninja: | setup-test
	$(WITH_CLANG) $(DEVELOPER) build-tsan $(TSAN)

build-bench/build.ninja: | setup-test
	$(WITH_GCC) $(DEVELOPER) build-bench --buildtype=release

build-fuzz/build.ninja: | setup-test
	$(WITH_CLANG) $(DEVELOPER) build-fuzz $(ASAN) -Dfuzzers=true
