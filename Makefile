# Everything built or downloaded stays in this checkout and in Go's caches.
SHELL := /bin/bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VERSION := $(shell git describe --always --dirty --tags 2>/dev/null || echo development)
DEVCLUSTER := .devcluster/bin/devcluster
GO_LDFLAGS := -X github.com/fescue-dev/fescue/internal/cli.linkedVersion=$(VERSION)

# Compilers, linters, tests and the control plane of the tests collect less garbage, which takes a fifth to a third of their CPU
# time. Fescue itself, when it is run or measured, does not.
build devcluster generate verify image dist dist-check lint test test-dist test-node fuzz site: export GOGC := 400

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/fescue
	go build -ldflags '$(GO_LDFLAGS)' -o bin/fescue .

# The node that runs Pods: kwok, which only simulates it, or real, which runs containers and needs
# root on Linux.
NODE := kwok

# A folder with kinds to run instead of the shipped ones, and the URL at which the API server of
# $KUBECONFIG reaches the webhooks; hack/run.sh reads them.
export KINDS WEBHOOK_URL

.PHONY: run
run: ## run Fescue and samples on an embedded cluster (NODE=real runs containers) or on that of $KUBECONFIG; KINDS=DIR runs your kinds instead
	@echo 'Building Fescue: 2 to 3 minutes at first, and seconds later'
	@$(MAKE) --no-print-directory build
	@if [ -n "$$KINDS" ]; then bin/fescue vet --kinds "$$KINDS"; fi
	@if [ -n "$$KUBECONFIG" ]; then exec hack/run.sh; \
	else $(MAKE) --no-print-directory devcluster && exec $(DEVCLUSTER) --node=$(NODE) -- hack/run.sh; fi

# The suites that make test runs; hack/test.sh has them.
SUITES := test

.PHONY: test
test: devcluster promtool ## run the unit tests, what is concurrent with the race detector, and the promises of the docs on a control plane; 5 minutes
	@$(DEVCLUSTER) $(if $(filter bench,$(SUITES)),-audit-policy bench/load/audit.yaml) -- hack/test.sh $(SUITES)

.PHONY: test-e2e
test-e2e: SUITES := e2e
test-e2e: test ## run the other tests on a control plane

.PHONY: test-race
test-race: SUITES := race race-histories race-e2e
test-race: test ## run what starts goroutines with the race detector

.PHONY: test-oracle
test-oracle: SUITES := oracle
test-oracle: test ## compare more objects with CUE's evaluator than make test does

.PHONY: test-bench
test-bench: SUITES := bench
test-bench: test ## run each benchmark once, and the comparison with small loads

.PHONY: test-all
test-all: SUITES := test e2e race race-histories race-e2e oracle
test-all: test ## run all tests that need no root; takes an hour
	@$(MAKE) --no-print-directory test-bench
	@$(MAKE) --no-print-directory test-kinds KINDS_MADE=6000
	@$(MAKE) --no-print-directory test-sim
	@$(MAKE) --no-print-directory test-faults FAULTS=5m

# Builds the image for this machine only.
.PHONY: test-node
test-node: NODE := real
test-node: PLATFORMS := linux/$(shell go env GOARCH)
test-node: image devcluster ## install and test Fescue in containers; needs root on Linux
	go test -C hack/devcluster -run TestRealNode . -real
	$(DEVCLUSTER) --node=real --image registry.example.com/fescue:test=bin/image -- go test -timeout 15m -run TestNode ./e2e

.PHONY: endurance
endurance: devcluster ## freeze the process that acts twenty times for 5 to 60 s, cut it off, replace 1,000 Pods ten times, and attack it within 512 MiB; takes about half an hour
	$(DEVCLUSTER) -- go test -timeout 60m ./e2e -run TestFrozenLeader -v -freezes 20 -long-freezes
	$(DEVCLUSTER) -- go test -timeout 60m ./e2e -run TestOutage -v -outage 1m
	$(DEVCLUSTER) -- go test -timeout 60m ./e2e -run TestReplacementMakesEachPodOnce -v -replaced-sets 20 -replacements 10
	$(DEVCLUSTER) -- go test -timeout 60m ./e2e -run TestWithin512MiB -v -memory-limit 512

# How long make soak runs.
DURATION ?= 60m

.PHONY: soak
soak: devcluster ## let objects of the shipped kinds come and go for $DURATION within 512 MiB, and draw what the operator uses as bin/soak.svg
	@mkdir -p bin
	$(DEVCLUSTER) -- go test -timeout 0 -v ./e2e -run 'TestSoak$$' -soak $(DURATION) -soak-plot $(CURDIR)/bin/soak.svg

# How long make test-faults runs.
FAULTS ?= 30m

.PHONY: test-faults
test-faults: devcluster ## let objects of many kinds live under random faults for $FAULTS, and damage the children of all scenarios
	$(DEVCLUSTER) -- go test -timeout 0 -v ./e2e -run 'TestRandomFaults|TestDamagedChildren' -faults $(FAULTS)

.PHONY: test-traces
test-traces: devcluster ## record all writes of the end-to-end tests, and ask the simulation's model of the API server for the same answers
	$(DEVCLUSTER) -audit-policy hack/sim/apiserver/audit.yaml -- sh -c 'go test -timeout 30m ./e2e && \
		go test -v ./hack/sim/apiserver -run "^TestModelRepeatsATrace$$" -audit-log "$$(dirname "$$KUBECONFIG")/audit.log"'

# The seeds of the kinds that make test-kinds makes: ranges add up, so FIRST=10000 makes the next ones.
FIRST := 0
KINDS_MADE := 12000
PAIRS := 20

.PHONY: test-kinds
test-kinds: ## make KINDS_MADE kinds, from seed FIRST on, and compare what they decide about PAIRS objects with CUE's evaluator; takes half an hour
	go test ./cue/kind/proof -run TestGeneratedKinds -first-kind $(FIRST) -generated-kinds $(KINDS_MADE) -pairs-of-a-kind $(PAIRS) -timeout 0 -v

# How many histories of each sort make race-histories plays: 260 take half an hour.
RACES := 260

.PHONY: race-histories
race-histories: ## play histories with 32 workers and the race detector
	go test -race -vet=off ./hack/sim/history -run '^TestHistories' -workers 32 -histories $(RACES) -timeout 0 -v

.PHONY: test-sim
test-sim: ## test the runtime by which histories repeat; compiles the standard library again, which takes minutes
	overlay=$$(go run ./hack/sim/overlay .sim) && go test -overlay "$$overlay" -tags sim ./hack/sim/...

# How many histories are played, the seed of the first one, and whether they are small.
HISTORIES := 10000
SEED := 1
SMALL := false
# What they are asked to cover.
COVERED := ./engine,./engine/plan,./engine/children,./engine/reconcile,./engine/inject,./admission

.PHONY: simulate
simulate: ## play HISTORIES of the whole engine from SEED on (SMALL=true has less happen in each), each of which repeats bit by bit, while requests fail and operators are killed
	overlay=$$(go run ./hack/sim/overlay .sim) && go test -overlay "$$overlay" -tags sim -coverpkg $(COVERED) ./hack/sim/history -run '^TestSimulate$$' -histories $(HISTORIES) -first-history $(SEED) -small=$(SMALL) -timeout 0 -v

# all, or a part of the name of a bug.
BUGS := all

.PHONY: test-bugs
test-bugs: ## put each of the bugs of hack/sim/history/bugs_test.go into the engine, and ask whether histories show it; takes half an hour
	overlay=$$(go run ./hack/sim/overlay .sim) && go test -overlay "$$overlay" -tags sim ./hack/sim/history -run '^TestBugs$$' -bugs '$(BUGS)' -overlays "$$overlay" -histories 2000 -timeout 0 -v

# all, or a part of the name of a file or of a function: MUTANTS=node.go
MUTANTS := all

.PHONY: test-mutants
test-mutants: ## break Fescue's evaluator of CUE in each place, and ask whether the comparison with CUE's own notices it; takes half an hour
	go test ./cue/kind/behaviour -run '^TestMutants$$' -mutants '$(MUTANTS)' -timeout 0 -v

# How many mutants of the engine are tried.
SOME := 300

.PHONY: test-engine-mutants
test-engine-mutants: ## break the engine in SOME places, one at a time, and ask whether histories show it; takes more than an hour
	go test ./hack/sim/history -run '^TestMutants$$' -mutants '$(MUTANTS)' -some-mutants $(SOME) -timeout 0 -v

.PHONY: test-pods
test-pods: devcluster ## try all generated Watchers on a control plane: what is accepted must keep Pods valid
	$(DEVCLUSTER) -- go test -timeout 60m -v -run TestAcceptedWatchersKeepPodsValid ./admission -watchers 0

# The versions that hack/devcluster/release.go lists.
KUBERNETES := 1.34 1.35 1.36 1.37

.PHONY: test-matrix
test-matrix: $(KUBERNETES:%=test-kubernetes-%) ## run the end-to-end tests on the versions of Kubernetes in $KUBERNETES, all by default

.PHONY: $(KUBERNETES:%=test-kubernetes-%)
$(KUBERNETES:%=test-kubernetes-%): test-kubernetes-%:
	@go build -C hack/devcluster -o ../../$(DEVCLUSTER) .
	$(DEVCLUSTER) -kubernetes $* -- go test -timeout 30m ./e2e ./internal/operator/election

# Longer than any test: go test ./cue/kind/proof -run TestDifferential -samples 1000000 -timeout 0
FUZZTIME ?= 30s
FUZZED := ./cue/kind/proof ./internal/jsontext ./internal/manifest ./internal/projection ./admission ./engine ./engine/inject

.PHONY: fuzz
fuzz: ## run each fuzz target for $FUZZTIME, and compare more objects than the tests do
	@for package in $(FUZZED); do \
		for target in $$(go test $$package -list '^Fuzz' | grep '^Fuzz'); do \
			go test $$package -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x || exit 1; \
		done; \
	done
	go test ./cue/kind/proof -run 'TestDifferential|TestMutations' -samples 3000 -mutations 1000 -timeout 60m

.PHONY: fuzz-packages
fuzz-packages: # for hack/oss-fuzz/build.sh
	@echo $(FUZZED)

.PHONY: cue-upgrade
cue-upgrade: ## try CUE VERSION=v…, and print where it and Fescue differ; takes about ten minutes
	@hack/cue-upgrade.sh $(if $(filter command,$(origin VERSION)),$(VERSION))

# Flags of bench/load: BENCH='-scenario ats,watchers -scale 0.1 -runs 1' runs a part.
BENCH ?=

.PHONY: test-decisions
test-decisions: ## compare a million decisions of each shipped kind, and 100,000 of each other, with CUE's evaluator; takes hours
	go test ./cue/kind/proof -timeout 0 -v -run TestDecisionsLikeCUE -only-kinds '^shipped/' -decisions 1000000
	go test ./cue/kind/proof -timeout 0 -v -run TestDecisionsLikeCUE -only-kinds 'txtar|^examples/' -decisions 100000
	go test ./cue/kind/proof -timeout 0 -v -run TestDecisionsKeepNothing -many-decisions 1000000

.PHONY: bench
bench: devcluster ## compare Fescue with an operator written by hand; BENCH='-scenario ats -scale 0.1' runs a part
	go run -C bench ./load $(BENCH)

.PHONY: bench-gate
bench-gate: devcluster ## fail if Fescue needs too much more than the operator written by hand, with small loads; takes minutes
	go run -C bench ./load -scenario ats,watchers,sets -scale 0.1 -operator fescue,by-hand \
		-limit requests=1.5 -limit 'CPU s=2.5' -limit 'peak MiB=2.6'

.PHONY: plots
plots: ## draw the tables of docs/performance.md into docs/plots
	go run -C bench ./plots

.PHONY: bench-go
bench-go: devcluster ## run the Go benchmarks of docs/performance.md
	go test -run '^$$' -bench . -benchmem ./cue/... ./engine/... ./admission/...
	$(DEVCLUSTER) -- go test -C bench -bench . -benchtime 1000x ./...

# Not in hack/tools: with the versions that golangci-lint needs, it does not build.
ACTIONLINT := v1.7.12

.PHONY: lint
lint: prose knots ## check style, the allowed imports, the knots of files, and the English of the pages
	go tool -modfile hack/tools/go.mod golangci-lint run ./...
	cd bench && go tool -modfile ../hack/tools/go.mod golangci-lint run --config ../.golangci.yml ./...
	cd hack/devcluster && go tool -modfile ../tools/go.mod golangci-lint run --config ../../.golangci.yml ./...
	cd hack/dist && go tool -modfile ../tools/go.mod golangci-lint run --config ../../.golangci.yml ./...
	cd hack/image && go tool -modfile ../tools/go.mod golangci-lint run --config ../../.golangci.yml ./...
	cd hack/prose && go tool -modfile ../tools/go.mod golangci-lint run --config ../../.golangci.yml ./...
	cd hack/knots && go tool -modfile ../tools/go.mod golangci-lint run --config ../../.golangci.yml ./...
	cd hack/k8stypes && go tool -modfile ../tools/go.mod golangci-lint run --config ../../.golangci.yml ./...
	go run github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT)

.PHONY: vulnerabilities
vulnerabilities: ## ask the Go vulnerability database about what the program calls
	go tool -modfile hack/tools/go.mod govulncheck .

# The pages that are measured; decisions are for those who work on Fescue.
PAGES ?= $(filter-out docs/decisions/%,$(wildcard *.md docs/*.md docs/*/*.md docs/*/*/*.md))

.PHONY: prose
prose: ## measure the English of $PAGES: relative pronouns and passive sentences
	go run -C hack/prose . $(abspath $(PAGES))

.PHONY: knots
knots: ## measure the packages of the program: files that reach each other, and methods of types
	go run -C hack/knots . ../.. . ./admission/... ./crds/... ./cue/... ./engine/... ./internal/... ./hack/sim/...

# all also builds each release, which the menu of the site then lists. SITE_BASE is the path at which the site is served.
RELEASES ?=

hack/site/node_modules/.package-lock.json: hack/site/package-lock.json
	@cd hack/site && npm ci --no-progress
	@touch $@

.PHONY: site
site: hack/site/node_modules/.package-lock.json ## build the site from docs/, with the playground, as bin/site; needs Node 20 and npm
	node hack/site/build.mjs $(if $(filter all,$(RELEASES)),--releases)

.PHONY: site-serve
site-serve: site ## build the site and serve it on loopback
	node hack/site/serve.mjs

.PHONY: site-test
site-test: site ## build the site and look at it in a headless Chromium, which must be installed; screenshots in bin/*-screenshots
	node --test --test-reporter spec --test-concurrency 1 hack/site/test.mjs hack/site/playground.test.mjs

.PHONY: generate
generate: build ## write the generated files
	go run -C hack/k8stypes .
	go run -C hack/devcluster ./types
	go tool cue fmt ./cue/... ./testdata/sources/...
	bin/fescue crd --output-dir crds
	bin/fescue manifests --service-monitor --output-dir config
	@$(MAKE) --no-print-directory plots

.PHONY: verify
verify: generate ## check that generated files and go.mod are up to date
	go mod tidy -diff
	go mod -C bench tidy -diff
	go mod -C hack/devcluster tidy -diff
	go mod -C hack/k8stypes tidy -diff
	go mod -C hack/dist tidy -diff
	go mod -C hack/image tidy -diff
	go mod -C hack/prose tidy -diff
	go mod -C hack/knots tidy -diff
	@git diff --exit-code -- config crds cue testdata docs/plots
	@untracked=$$(git ls-files --others --exclude-standard -- config crds cue testdata docs/plots); \
	if [ -n "$$untracked" ]; then echo "not committed: $$untracked"; exit 1; fi

# IMAGE=registry.example.com/fescue:v1 also pushes the image, BASE=… sets a base image.
IMAGE ?=
BASE ?=
PLATFORMS ?= linux/amd64,linux/arm64

.PHONY: image
image: ## build the container image and its SBOMs into bin/; IMAGE=… also pushes it
	rm -rf bin/image bin/sboms
	go run -C hack/image . -dir ../.. -layout ../../bin/image -sboms ../../bin/sboms \
		-version '$(VERSION)' -platform '$(PLATFORMS)' -base '$(BASE)' -push '$(IMAGE)'

# Platforms for make dist, and more flags of hack/dist: make dist TARGETS=linux/amd64 DIST_FLAGS=-dirty tries it.
TARGETS ?= linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64
DIST_FLAGS ?=

.PHONY: dist
dist: ## make what a release has, of the last commit, into dist/: programs, image, chart, SBOMs, provenance, checksums
	go run -C hack/dist . -dir ../.. -out ../../dist -targets '$(TARGETS)' $(DIST_CHECK) $(DIST_FLAGS)

.PHONY: dist-check
dist-check: DIST_CHECK := -check
dist-check: dist ## make dist twice, in different folders and the second time with an empty build cache, and compare all files

.PHONY: test-dist
test-dist: ## test the Helm chart and the other files of a release
	go test -C hack/dist ./...

.PHONY: devcluster
devcluster:
	@go build -C hack/devcluster -o ../../$(DEVCLUSTER) .
	@if [ $(NODE) = real ] && missing=$$($(DEVCLUSTER) -missing) && [ -n "$$missing" ] && command -v apt-get > /dev/null; then \
		apt-get update -qq && apt-get install -y -qq $$missing; fi
	@$(DEVCLUSTER) -build --node=$(NODE)

.PHONY: promtool
promtool:
	@if [ ! -x .devcluster/bin/promtool ] && ! command -v promtool > /dev/null; then \
		hack/promtool.sh || echo 'promtool is not available: the alert rules are not tested'; fi

.PHONY: clean
clean: ## remove everything built here
	rm -rf bin dist .devcluster
