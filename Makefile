# The front door. Meson and ninja do the work; this file only names what can be asked for.
# Every target that builds or tests first installs what is missing (tools/setup.sh).

PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60

# What `make ab` and `make bench` compare: build folders or git revisions; and options of tools/ab.py.
A ?=
B ?=
AB ?=
ABFLAGS ?=

# Build folders: build (gcc, plain), and one for each other way to compile.
ASAN = -Db_sanitize=address,undefined -Db_lundef=false
TSAN = -Db_sanitize=thread -Db_lundef=false
SANITIZED_FACTOR = 5

RUN = tools/run-tests

# A build folder that was made before cmocka was installed has no tests yet.
WITH_TESTS = grep -q base_test build/build.ninja || meson configure build -Dtests=enabled

.DEFAULT_GOAL := all
.PHONY: all help demo check test full record mutants install asan tsan clang fuzz bench ab amd64 format \
	clean setup setup-test

all: build/build.ninja ## build the program and the library
	ninja -C build

help: ## list what can be asked for
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

demo: all ## show what there is, in a minute
	sh tools/demo.sh build

check: setup-test build/build.ninja ## what a developer runs all day (90 s): unit, local stores, corpora, lint
	$(WITH_TESTS)
	ninja -C build
	$(RUN) --limit 90 build:check

test: setup-test build/build.ninja build-clang/build.ninja build-asan/build.ninja build-tsan/build.ninja ## all that a change must pass (15 min): check, simulator, servers, sanitizers
	$(WITH_TESTS)
	ninja -C build && ninja -C build-clang && ninja -C build-asan && ninja -C build-tsan
	$(RUN) --limit 900 build:check,test build-clang:compiler \
		build-asan:check,-source,-sized:$(SANITIZED_FACTOR) \
		build-tsan:threads,-sized:$(SANITIZED_FACTOR)

full: setup-test build/build.ninja build-clang/build.ninja build-asan/build.ninja build-tsan/build.ninja ## test, and the long instances (75 min)
	$(WITH_TESTS)
	ninja -C build && ninja -C build-clang && ninja -C build-asan && ninja -C build-tsan
	$(RUN) --limit 4500 build:check,test,full build-clang:check,test,-source \
		build-asan:check,test,-source:$(SANITIZED_FACTOR) \
		build-tsan:threads:$(SANITIZED_FACTOR)
	$(MAKE) mutants

record: setup-test build/build.ninja ## the longest runs; their log goes to docs/evidence
	$(WITH_TESTS)
	ninja -C build
	sh tools/record.sh $(RUN) build:record

mutants: setup-test ## break each rule of src/base/rule.h; a judge of the simulator must notice (3 min)
	test -f build-mutants/build.ninja || \
		meson setup build-mutants --buildtype=release -Dmutants=true -Dtests=disabled
	ninja -C build-mutants
	tools/mutants.py build-mutants/sim/holdfast-sim

install: setup ## install under DESTDIR and PREFIX
	test -f build-install/build.ninja || meson setup build-install -Dtests=disabled
	meson configure build-install -Dprefix=$(abspath $(PREFIX))
	ninja -C build-install
	DESTDIR=$(DESTDIR) meson install -C build-install --no-rebuild

asan: setup-test build-asan/build.ninja ## check under AddressSanitizer and UBSan
	ninja -C build-asan
	$(RUN) build-asan:check,-source,-sized:$(SANITIZED_FACTOR)

tsan: setup-test build-tsan/build.ninja ## the threaded tests under ThreadSanitizer
	ninja -C build-tsan
	$(RUN) build-tsan:threads:$(SANITIZED_FACTOR)

clang: setup-test build-clang/build.ninja ## check, compiled by clang
	ninja -C build-clang
	$(RUN) build-clang:check,-source,-sized

fuzz: setup-test build-fuzz/build.ninja ## each fuzzer for FUZZ_SECONDS; new inputs join the corpus
	ninja -C build-fuzz
	sh tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

bench: setup-test build-bench/build.ninja ## the figures that must hold, optimised and with the machine idle; AB=REVISION
	ninja -C build-bench
	sh tools/bench.sh build-bench $(AB)

ab: setup-test build-bench/build.ninja ## is B (default: this tree) slower than A? A=REVISION_OR_BUILD [B=...]
	@test -n "$(A)" || { echo "make ab: say what to compare with: make ab A=REVISION_OR_BUILD" >&2; exit 2; }
	$(if $(B),,ninja -C build-bench)
	tools/ab.py $(ABFLAGS) $(A) $(or $(B),build-bench)

amd64: ## build for amd64 and run it under qemu
	sh tools/amd64.sh

format: setup-test ## clang-format all C files
	sh tools/c-files.sh | xargs clang-format -i

clean: ## remove all build folders
	rm -rf build build-clang build-asan build-tsan build-fuzz build-bench build-ab build-mutants \
		build-install build-amd64

setup:
	@sh tools/setup.sh build

setup-test:
	@sh tools/setup.sh test

build/build.ninja: | setup
	meson setup build

build-clang/build.ninja: | setup-test
	CC=clang meson setup build-clang

build-asan/build.ninja: | setup-test
	CC=clang meson setup build-asan $(ASAN)

build-tsan/build.ninja: | setup-test
	CC=clang meson setup build-tsan $(TSAN)

build-bench/build.ninja: | setup-test
	meson setup build-bench --buildtype=release -Dtests=disabled

build-fuzz/build.ninja: | setup-test
	CC=clang meson setup build-fuzz $(ASAN) -Dfuzzers=true
