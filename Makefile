# One build configuration: release, in .build. `make` alone lists what there is.
SHELL := /bin/bash
DEVICES ?= 10000
ARGS ?=
MINUTES ?= 30
bin := .build/release
# Without information for debuggers there is a tenth less to compile and to link. The image's build has it
# (deploy/docker). With the second option the compiler reads each module once: by default it does so twice, so that
# dependents can begin earlier, which two processors gain nothing from.
swift_build := swift build -c release -debug-info-format none -Xswiftc -no-emit-module-separately-wmo

.PHONY: help demo phone phone-test build build-tests docs test prove web-test conformance check bench bench-call soak fuzz sanitize clean install

help:
	@echo "make demo    ring 10,000 simulated devices through a cluster on this machine"
	@echo "             (DEVICES=1000 and ARGS='--rate 500 --json run.json' change it)"
	@echo "make phone   a phone for browsers, with a cluster on this machine (ARGS=--tls: for other machines, too)"
	@echo "make test    what a change must pass, some minutes (ONLY=ChaosTests: the tests whose id matches)"
	@echo "make prove   what a release must pass, an hour and a half (PARTS='seeds chaos': only those)"
	@echo "make web-test  the tests of the JavaScript client (part of make test)"
	@echo "make conformance  both clients in 203 situations of the device protocol (ARGS='--only 204': that one)"
	@echo "make phone-test  the phone in Chromium and Firefox: calls with sound and pictures (make test runs one of each kind; ARGS=test_calls: only those)"
	@echo "make check   format, comments, generated code, import rules, lines of each module, build without warnings"
	@echo "make docs    the pages of CallmeshClient, the library for apps, as a web site"
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
	$(swift_build)

# SwiftPM builds one product at a time, or all.
demo: install
	$(swift_build) --product callnode
	$(swift_build) --product callload
	$(bin)/callload --devices $(DEVICES) $(ARGS)

docs: build
	@deploy/dev/docs.sh

phone: install
	$(swift_build) --product callnode
	$(swift_build) --product webphone
	@$(bin)/webphone $(ARGS)

phone-test: build
	clients/web/phone/test/run.sh $(bin)/webphone $(ARGS)

build-tests:
	@deploy/dev/install.sh tests
	$(swift_build) --build-tests

# SwiftPM only builds. Tests/Run runs the tests, as many beside each other as the processors allow (docs/testing.md).
test: build-tests
	@python3 Tests/Run test $(if $(ONLY),--only '$(ONLY)') $(ARGS)

prove: build-tests
	@python3 Tests/Run prove $(foreach part,$(PARTS),--part $(part)) $(ARGS)

web-test:
	deploy/dev/web-test.sh

conformance: build
	@deploy/dev/conformance.sh $(bin)/conformanceadapter $(ARGS)

check: install
	SWIFT_BUILD='$(swift_build)' deploy/dev/check.sh

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
