# One build configuration: release, in .build. `make` alone lists what there is.
SHELL := /bin/bash
DEVICES ?= 10000
ARGS ?=
MINUTES ?= 30
bin := .build/release

.PHONY: help demo build test check bench bench-call soak fuzz sanitize clean install

help:
	@echo "make demo    ring 10,000 simulated devices through a cluster on this machine"
	@echo "             (DEVICES=1000 and ARGS='--rate 500 --json run.json' change it)"
	@echo "make test    run all tests (some minutes)"
	@echo "make check   format, generated code, import rules, build without warnings"
	@echo "make build   callnode, callctl and callload into $(bin)"
	@echo "make bench   micro-benchmarks of core, codec, push, bus and journal (ARGS=journal: only those)"
	@echo "make bench-call  instructions and allocations of a whole call, by part (ARGS=--check: beside the baseline)"
	@echo "make soak    MINUTES=30 of every fault, on one nats-server and on three; memory and store stay flat"
	@echo "make fuzz    MINUTES=30 of made-up bytes for whatever reads those of strangers (docs/fuzzing.md)"
	@echo "make sanitize  the tests of the same, under the address and the thread sanitizer"
	@echo "make clean   remove what was built"

install:
	@deploy/dev/install.sh

build: install
	swift build -c release

demo: build
	$(bin)/callload --devices $(DEVICES) $(ARGS)

# What needs the processors for itself runs by itself: servers that are killed, thousands of simulated
# clusters, nodes with heartbeats, pushes with deadlines, whole clusters of processes. One that fails keeps
# none of the others from running. Clusters mostly wait: for a lease to expire, for a load to end. So two of their
# tests run at a time; what the second one prints follows the first.
heavy := CallCoordinatorTests CallPushTests NATSBusTests CallSimulationTests
clusters := IntegrationTests
test: install
	swift build -c release --build-tests
	failed=0; run() { swift test -c release --skip-build "$$@" || failed=1; }; \
	run $(patsubst %,--skip '%\.',$(heavy) $(clusters)); \
	for tests in $(heavy); do run --filter "$$tests\."; done; \
	log=$$(mktemp); (failed=0; run --ignore-lock --no-parallel --filter '$(clusters)\.[N-Z]' >"$$log" 2>&1; exit $$failed) & \
	run --no-parallel --filter '$(clusters)\.[A-M]'; \
	wait $$! || failed=1; cat "$$log"; rm -f "$$log"; exit $$failed

check: install
	deploy/dev/check.sh

bench: build
	loadtest/bench.sh $(bin) $(ARGS)

bench-call: build
	loadtest/bench-call.sh $(bin) $(ARGS)

soak: build
	loadtest/soak.sh $(bin) $(MINUTES) $(ARGS)

fuzz: install
	deploy/dev/fuzz.sh $(MINUTES) $(ARGS)

sanitize: install
	deploy/dev/sanitize.sh $(ARGS)

clean:
	swift package clean
