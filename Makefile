# The front door. Meson and ninja do the work; this file only names what can be asked for.
# `make setup`, `make demo` and what tests first install what is missing, and say what; `make` and
# `make install` only say what is missing (tools/setup.sh).

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60
FLAKE_RUNS ?= 200

# What `make ab` and `make bench` compare: build folders or git revisions; and options of tools/ab.py.
A ?=
B ?=
AB ?=
ABFLAGS ?=

SANITIZED_FACTOR = 5

RUN = tools/run-tests --build

# Compilers and linker: through ccache and with mold, where they are there.
CCACHE = $(shell command -v ccache)
LINKER = $(if $(shell command -v mold),CC_LD=mold)
WITH_GCC = CC="$(CCACHE) gcc" $(LINKER)
WITH_CLANG = CC="$(CCACHE) clang" $(LINKER)

# A developer's build has the tests, and warnings are errors.
DEVELOPER = meson setup -Ddeveloper=true --werror
ASAN = -Db_sanitize=address,undefined -Db_lundef=false
TSAN = -Db_sanitize=thread -Db_lundef=false
TEST_BUILDS = build-gcc/build.ninja build-asan/build.ninja build-tsan/build.ninja

.DEFAULT_GOAL := all
.PHONY: all abi api-docs help demo check test full record mutants coverage install asan tsan clang flakes fuzz bench ab amd64 changed \
	format clean setup setup-test needs

all: build/build.ninja ## build the program and the library
	ninja -C build

help: ## list what can be asked for
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: setup ## show what there is, in a minute
	$(MAKE) all
	ninja -C build sim/holdfast-sim
	sh tools/demo.sh build

check: setup-test build-gcc/build.ninja ## what a developer runs all day (1 min): unit, local stores, corpora, lint
	$(RUN) --budget=check build-gcc:check

changed: setup-test build-gcc/build.ninja ## the tests of check and test that the uncommitted change can reach
	$(RUN) --changed build-gcc:check,test

test: setup-test $(TEST_BUILDS) ## all that a change must pass (11 min of tests): check, simulator, servers, sanitizers
	ninja -C build-gcc
	ninja -C build-asan
	$(RUN) --budget=test build-gcc:check,test \
		build-asan:asan:$(SANITIZED_FACTOR) build-tsan:tsan:$(SANITIZED_FACTOR)

full: setup-test $(TEST_BUILDS) build-clang/build.ninja ## test, and the long instances (75 min)
	$(RUN) --budget=full build-gcc:check,test,full build-clang:check,test,-source \
		build-asan:asan,check,test,-source:$(SANITIZED_FACTOR) build-tsan:tsan:$(SANITIZED_FACTOR)
	$(MAKE) mutants

record: setup-test build-gcc/build.ninja ## the longest runs; their log goes to docs/evidence
	sh tools/record.sh $(RUN) build-gcc:record

mutants: setup-test ## break each rule of src/base/rule.h; a judge of the simulator must notice (3 min)
	test -f build-mutants/build.ninja || \
		$(WITH_GCC) meson setup build-mutants --buildtype=release -Dmutants=true
	ninja -C build-mutants sim/holdfast-sim
	tools/mutants.py build-mutants/sim/holdfast-sim

coverage: setup-test ## run check and test, and show which lines and branches of src they reach
	test -f build-coverage/build.ninja || \
		$(WITH_GCC) meson setup build-coverage -Ddeveloper=true --buildtype=debug -Db_coverage=true \
		-Dc_args=-fprofile-update=atomic
	sh tools/coverage.sh build-coverage $(RUN) build-coverage:check,test:4

install: needs ## install under DESTDIR and PREFIX
	test -f build-install/build.ninja || meson setup build-install
	meson configure build-install -Dprefix=$(abspath $(PREFIX))
	ninja -C build-install
	DESTDIR=$(DESTDIR) meson install -C build-install --no-rebuild

asan: setup-test build-asan/build.ninja ## check under AddressSanitizer and UBSan
	$(RUN) build-asan:asan:$(SANITIZED_FACTOR)

tsan: setup-test build-tsan/build.ninja ## the threaded tests under ThreadSanitizer
	$(RUN) build-tsan:tsan:$(SANITIZED_FACTOR)

clang: setup-test build-clang/build.ninja ## check, compiled by clang
	$(RUN) build-clang:check,-source

flakes: setup-test build-gcc/build.ninja ## each test that involves time FLAKE_RUNS times, beside two busy loops
	HOLDFAST_CASES=timed sh tools/busy.sh 2 $(RUN) --repeat=$(FLAKE_RUNS) --jobs=4 build-gcc:timed:4

fuzz: setup-test build-fuzz/build.ninja ## each fuzzer for FUZZ_SECONDS; new inputs join the corpus
	ninja -C build-fuzz
	sh tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

bench: setup-test build-bench/build.ninja ## the figures that must hold, optimised and with the machine idle; AB=REVISION
	ninja -C build-bench benches
	sh tools/bench.sh build-bench $(AB)

ab: setup-test build-bench/build.ninja ## is B (default: this tree) slower than A? A=REVISION_OR_BUILD [B=...]
	@test -n "$(A)" || { echo "make ab: say what to compare with: make ab A=REVISION_OR_BUILD" >&2; exit 2; }
	$(if $(B),,ninja -C build-bench benches)
	tools/ab.py $(ABFLAGS) $(A) $(or $(B),build-bench)

abi: setup-test ## record the interface of the library anew (tests/abi), after a change on purpose
	tests/abi_test.py record

api-docs: ## write docs/api.md anew, from the headers
	tools/api-docs.py

amd64: ## build for amd64 and run it under qemu
	sh tools/amd64.sh

format: setup-test ## clang-format all C files
	sh tools/c-files.sh | xargs clang-format -i

clean: ## remove all build folders
	rm -rf build build-*/

setup: ## install the packages that building needs
	@sh tools/setup.sh build

needs:
	@sh tools/setup.sh --check build

setup-test:
	@sh tools/setup.sh test

build/build.ninja: | needs
	meson setup build

build-gcc/build.ninja: | setup-test
	$(WITH_GCC) $(DEVELOPER) build-gcc

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
