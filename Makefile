# flannel, done right. `make` alone lists what can be made.
#
# Everything works as root and as an ordinary user. Without root the network
# namespaces live in a user namespace; nothing here asks for sudo.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory

GO       ?= go

# The version is what git says, where git says anything: it refuses to look at
# a clone of somebody else's.
STAMP    := $(if $(shell git status >/dev/null 2>&1 && echo yes || true),true,false)

# The race detector needs cgo, which needs a C compiler and the C library's
# headers. Without them the tests run all the same, and say so.
HAVE_CC  := $(shell $$($(GO) env CC) -E -include pthread.h -x c /dev/null >/dev/null 2>&1 && echo yes || true)
RACE     := $(if $(HAVE_CC),-race)
RACENOTE := race detector: $(if $(HAVE_CC),on,OFF - no C compiler or C headers here (make deps))

# Two packages at a time: the suites with real kernels are bound by CPU, and
# more of them at once only make each other miss their deadlines.
JOBS     ?= 2
PKG      ?= ./...
RUN      ?= .
NAME     ?=
WORLD    ?=
BENCH    ?= .
FUZZTIME ?= 10s
RUNS     ?= 2000
HOLD     ?=

# The labs run this daemon instead of building one each.
export FLANNEL_LAB_DAEMON := $(CURDIR)/bin/flanneld

.DEFAULT_GOAL := help

##@ See it work

# Not by go run, which would call the Ctrl-C that ends a demo an error.
.PHONY: demo
demo: build ## three nodes in namespaces: ping all pods, break a device, watch it heal (HOLD=1 keeps it up)
	@$(GO) build -buildvcs=$(STAMP) -o bin/demo ./harness/cmd/demo
	@exec bin/demo $(if $(HOLD),-hold)

.PHONY: scenario
scenario: build ## replay scenarios (NAME=vxlan-basic or 'vxlan-*', WORLD=sim|netns, SEED=7, REPORT=out.html, RECORD=1)
	@cd scenarios && SCENARIO='$(NAME)' WORLD='$(WORLD)' SEED='$(SEED)' REPORT='$(if $(REPORT),$(abspath $(REPORT)))' \
		$(GO) test -count=1 -timeout 20m -run '^TestScenarios$$' $(if $(RECORD),-rewrite)

# The parts of the core that decide. What a search never reached of them is listed.
DECIDES = $(addprefix core/,alloc backend backend/vxlan backend/hostgw backend/udp firewall lease node udppath reconcile)

.PHONY: sim
sim: bin/sim ## search for bugs in the simulator (SEEDS=1000, NODES= BACKEND=vxlan|host-gw|udp FAMILY=v4|v6|dual FIREWALL=iptables|nftables STORE=etcd|kube REPORT=out.html), or replay one (SEED=8231)
	@counters=$$(mktemp -d); trap 'rm -rf "$$counters"' EXIT; \
	GOCOVERDIR="$$counters" bin/sim $(if $(SEED),-seed $(SEED),-seeds $(or $(SEEDS),100)) $(if $(NODES),-nodes $(NODES)) \
		$(if $(BACKEND),-backend $(BACKEND)) $(if $(FAMILY),-family $(FAMILY)) $(if $(FIREWALL),-firewall $(FIREWALL)) $(if $(STORE),-store $(STORE)) $(if $(REPORT),-report '$(REPORT)'); \
	$(if $(SEED),,echo "never reached, of the core:"; $(GO) run ./hack/unreached "$$counters" $(DECIDES))

# With counters of what runs, which cost next to nothing. The command itself
# has to be among what is counted, or nothing is written at its end.
.PHONY: bin/sim
bin/sim:
	@$(GO) build -buildvcs=$(STAMP) -cover -coverpkg=./core/...,./scenarios/cmd/sim -o bin/sim ./scenarios/cmd/sim

##@ Build

.PHONY: build
build: ## bin/flanneld and the CNI plugin bin/flannel-cni, static binaries
	@CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=$(STAMP) -o bin/ ./cmd/flanneld ./cmd/flannel-cni

.PHONY: manifest
manifest: ## deploy/kube-flannel.yml, from the chart in deploy/chart
	@cd tools/deploy && $(GO) run . ../../deploy/chart > ../../deploy/kube-flannel.yml.new
	@mv deploy/kube-flannel.yml.new deploy/kube-flannel.yml

.PHONY: fmt
fmt: ## format all Go files
	@gofmt -l -w $(GODIRS)

.PHONY: clean
clean: ## remove bin/
	@rm -rf bin

##@ Check

# What the tests can use is installed first, in a make of its own: the compiler
# that the race detector needs may be among it.
.PHONY: test
test: ## everything: format, vet, lint, unit, fuzz seeds, conformance and scenarios on both worlds
	@hack/deps || true
	@$(MAKE) run-tests

.PHONY: run-tests
run-tests: check build bin/testsum
	@bin/testsum -note 'gofmt, go vet, staticcheck: clean' -note '$(RACENOTE)' $(if $(RESULTS),-more -results '$(RESULTS)') -- \
		$(RACE) -count=1 -p $(JOBS) -timeout 20m -run '$(RUN)' $(PKG)

# Kubernetes' programs are built from its own module, which takes some minutes
# the first time; go keeps what it compiled. A module of its own keeps it out of ours.
KUBE         = bin/kube-apiserver bin/kube-proxy
KUBE_VERSION = $(shell cd tools/kube && $(GO) list -m -f '{{.Version}}' k8s.io/kubernetes)

$(KUBE): bin/%: tools/kube/go.mod
	@echo "building $* $(KUBE_VERSION): minutes the first time, seconds from then on"
	@cd tools/kube && CGO_ENABLED=0 $(GO) build -v -trimpath -o ../../$@ \
		-ldflags '-s -w -X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION)' k8s.io/kubernetes/cmd/$* 2>&1 | ../../hack/compiling

# The last of several runs that count into RESULTS: it prints the summary.
.PHONY: test-kube
test-kube: RESULTS := $(or $(RESULTS),$(shell mktemp -u))
test-kube: export FLANNEL_LAB_APISERVER := $(CURDIR)/bin/kube-apiserver
test-kube: export FLANNEL_LAB_PROXY := $(CURDIR)/bin/kube-proxy
test-kube: build bin/testsum $(KUBE) ## flanneld against a real Kubernetes API server and kube-proxy, and what deploy/ holds (FOCUS='words of a spec')
	@trap 'rm -f "$(RESULTS)"' EXIT; status=0; \
	bin/testsum -more -results '$(RESULTS)' -C tools/deploy -- -count=1 ./... || status=$$?; \
	bin/testsum -note "Kubernetes $(KUBE_VERSION)" -results '$(RESULTS)' -- $(RACE) -count=1 -timeout 30m ./harness/kubelab $(if $(FOCUS),-ginkgo.focus '$(FOCUS)') || status=$$?; \
	exit $$status

.PHONY: check
check: fmt-check vet lint ## format, vet and lint only

.PHONY: fmt-check
fmt-check:
	@bad=$$(gofmt -l $(GODIRS)); [ -z "$$bad" ] || { echo "not formatted (make fmt):" $$bad; exit 1; }

.PHONY: vet
vet: ## go vet
	@$(GO) vet ./...

.PHONY: lint
lint: ## staticcheck, in the version go.mod pins
	@$(GO) tool staticcheck ./...

.PHONY: bench
bench: build ## benchmarks, one at a time, whole nodes last: docs/benchmarks.md (BENCH=regexp, PKG=./bench)
	@$(GO) test -run '^$$' -bench '$(BENCH)' -p 1 -timeout 60m $(patsubst ./...,./core/... ./drivers/... ./scenarios/simbench ./bench,$(PKG)) | grep -v -e '^ok .*\[no tests' -e '\[no test files\]' -e '^PASS$$'

.PHONY: bench-udp
bench-udp: ## the udp backend beside the kernel's vxlan, in turns: docs/udp.md (ROUNDS=5, UDPFLAGS='-loads tcp1'; as root)
	@$(GO) build -o bin/bench-udp ./bench/udp
	@exec bin/bench-udp -rounds $(or $(ROUNDS),5) $(UDPFLAGS)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (default 10s) each, then RUNS (2000) random runs on kernel and simulator
	@FUZZTIME=$(FUZZTIME) RUNS=$(RUNS) GO=$(GO) hack/fuzz

.PHONY: deps
deps: ## install what the tests can use and this machine lacks (Debian; says so when not root)
	@hack/deps

bin/testsum: $(wildcard hack/testsum/*.go internal/suite/outcome/*.go) go.mod
	@$(GO) build -o $@ ./hack/testsum

# The directories with Go files of ours.
GODIRS = $(wildcard bench cmd cni core docs drivers harness hack internal scenarios)

##@ Help

.PHONY: help
help: ## this text
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nNew here: make demo. Before a commit: make test.\n'
