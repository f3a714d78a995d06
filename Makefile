# SPDX-License-Identifier: Apache-2.0
# A thin front for Meson: each target installs what it needs (tools/setup), then calls one command.
# `make help` lists the targets. Variables: ONCE=1 (run), PREFIX= DESTDIR= (install),
# SECONDS= TARGETS= (fuzz), TESTS= (kube-test), PARTS= (nightly), MESON_ARGS= (options of the first configuration).
PREFIX  ?= /usr/local
DESTDIR ?=
SECONDS ?= 30
TARGETS ?=
TESTS   ?=
PARTS   ?=
ONCE    ?=
MESON_ARGS ?=

OBJ   ?= build/main
STAGE := build/stage

.PHONY: all build programs stage run tour test kube-test loader-test page-test nightly install fmt lint bench fuzz clean help
.DEFAULT_GOAL := all

all: stage ## build, and leave a staged install in build/stage (the default)

# Prefix "/" because the tree is relocatable: the programs find each other and the simulator
# relative to themselves, so one build serves build/stage and any PREFIX.
$(OBJ)/build.ninja:
	@tools/setup build test
	@mkdir -p $(dir $(OBJ))
	@meson setup $(OBJ) --prefix=/ $(MESON_ARGS) >$(OBJ).log || { cat $(OBJ).log; exit 1; }

build: $(OBJ)/build.ninja ## compile only, the tests too
	@tools/setup build test
	@tools/compile $(OBJ)

programs: $(OBJ)/build.ninja
	@tools/setup build test
	@tools/compile $(OBJ) programs

stage: programs
	@tools/stage $(OBJ) $(STAGE)

run: stage ## main job: the sharing story end to end on a simulated node (ONCE=1: ends by itself)
	@exec $(STAGE)/bin/gpuslice demo $(if $(filter-out 0,$(ONCE)),--once)

tour: stage ## profile, plan, apply, measure, report: the whole way on simulated GPUs, in a minute
	@tools/tour $(STAGE) build/tour

# The integration suites wait more than they compute.
test: export MESON_TESTTHREADS ?= $(shell echo $$((2 * $$(nproc))))
test: $(OBJ)/build.ninja ## unit tests, corpus replay, and the real programs on simulated nodes
	@tools/setup build test
	@tools/compile $(OBJ) --for unit fuzz integration
	@meson test -C $(OBJ) --no-rebuild --print-errorlogs \
		--suite unit --suite fuzz --suite integration

kube-test: build ## on a real Kubernetes, as root; the first time builds what the suites need; TESTS="story faults" for some
	@tools/setup build test kube
	@test/kube/build $(if $(TESTS),--for $(TESTS))
	@GPUSLICE_BUILD='$(abspath $(OBJ))' test/kube/run $(TESTS)

loader-test: build ## preload libraries on several C libraries, as root; GPUSLICE_LOADER="bullseye trixie" fetches those
	@tools/setup build test loader
	@GPUSLICE_LOADER='$(or $(GPUSLICE_LOADER),host bullseye trixie musl)' meson test -C $(OBJ) \
		--no-rebuild --print-errorlogs --logbase loaderlog --suite loader

page-test: build ## the status page in Chromium
	@tools/setup build test page
	@test/page/run $(OBJ)

nightly: ## everything: the gate, and what takes longer (under 100 minutes); PARTS="kube stress" for some
	@.ci/run $(or $(PARTS),--all)

install: programs ## install below PREFIX (default /usr/local), under DESTDIR if that is set
	@DESTDIR='$(abspath $(DESTDIR)/$(PREFIX))' meson install -C $(OBJ) --no-rebuild --quiet

fmt: ## format all C files
	@tools/setup lint
	@tools/check-format.sh --fix

lint: build ## format, layers, headers, banned calls, scripts, clang-tidy, cppcheck
	@tools/setup lint
	@meson test -C $(OBJ) --no-rebuild --print-errorlogs --suite lint
	@tools/check-tidy.sh $(OBJ)
	@tools/check-cppcheck.sh

bench: build stage ## benchmarks, with the figures they are held against
	@meson test -C $(OBJ) --no-rebuild --benchmark --verbose --timeout-multiplier 4

fuzz: ## each fuzz target for SECONDS (default 30); TARGETS="config sim-node" for some
	@tools/setup build test fuzz
	@tools/fuzz $(SECONDS) $(TARGETS)

clean: ## remove all build products
	@rm -rf build

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
