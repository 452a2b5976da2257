# Two commands set everything up on Debian 12: `make ask` and `make test`. The rest is for working on it.

BUILD := build/release
PROMPT ?= 你好

.PHONY: help ask test build configure packages check-large bench format check-format tidy tidy-changed sanitize fuzz clean

help:
	@echo "make ask          install packages, build, and ask the bundled model (PROMPT=... asks something else)"
	@echo "make test         the same, then run all tests"
	@echo "make build        install packages and build into $(BUILD)"
	@echo "make check-large  slow checks on models of real size; says what it skips and why"
	@echo "make bench        benchmarks of the operators"
	@echo "make sanitize     unit tests under address, undefined and thread sanitizers"
	@echo "make fuzz         every fuzzer for SECONDS=300 each"
	@echo "make format       clang-format 19 on all sources; check-format only checks"
	@echo "make tidy         clang-tidy 19 on all sources; tidy-changed on what the last commit changed"

# Builds the command only: tests and benchmarks take several times as long. PROMPT reaches the shell as a
# variable, so that it may hold quotes.
ask: export ASK_PROMPT = $(PROMPT)
ask: configure
	@cmake --build --preset release --target tessera_command -- --quiet >&2
	@$(BUILD)/bin/tessera ask --prompt "$$ASK_PROMPT"

test: build
	@ctest --test-dir $(BUILD) --output-on-failure --parallel $$(nproc) --timeout 300

build: configure
	@cmake --build --preset release -- --quiet >&2

configure: packages
	@test -f $(BUILD)/build.ninja || { \
	  echo "building: a few minutes the first time" >&2; cmake --preset release > /dev/null; }

packages:
	@scripts/install-packages.sh

check-large: build
	@scripts/check-large.sh

bench: build
	@$(BUILD)/bin/ops_bench --benchmark_min_time=0.2
	@$(BUILD)/bin/matmul_block_benchmark

SOURCES = $(shell git ls-files '*.cpp' '*.h')

format:
	@scripts/install-packages.sh clang-format-19
	@clang-format-19 -i $(SOURCES)

check-format:
	@scripts/install-packages.sh clang-format-19
	@clang-format-19 --dry-run --Werror $(SOURCES)

tidy:
	@scripts/install-packages.sh clang-tidy-19 clang-19
	@scripts/tidy.sh

tidy-changed:
	@scripts/install-packages.sh clang-tidy-19 clang-19
	@scripts/tidy.sh --changed

sanitize: packages
	@for preset in asan-ubsan tsan; do \
	  cmake --preset $$preset > /dev/null && cmake --build --preset $$preset -- --quiet && \
	  ctest --preset $$preset --parallel $$(nproc) || exit 1; done

SECONDS ?= 300

fuzz:
	@scripts/install-packages.sh clang-19 libclang-rt-19-dev
	@scripts/fuzz.sh $(SECONDS)

clean:
	rm -rf build
