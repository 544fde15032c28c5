# flannel, done right. `make` alone lists what can be made.
#
# Everything works as root and as an ordinary user. Without root the network
# namespaces live in a user namespace; nothing here asks for sudo.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory

GO       ?= go

# Where Debian keeps nft and iptables; an ordinary user's PATH lacks it.
export PATH := $(PATH):/usr/sbin:/sbin

# The version comes from git, except in a clone of another user, which git
# refuses to read.
STAMP    := $(if $(shell git status >/dev/null 2>&1 && echo yes || true),true,false)

# Every build has these flags. With -trimpath the build cache does not depend on
# folders: another clone, or another module cache, reuses what is compiled.
# With the tag, gRPC lacks its page of traces, which nothing shows; it looks methods up by
# name, so that the linker would keep every exported method of every type.
export GOFLAGS := $(strip $(shell $(GO) env GOFLAGS) -trimpath -buildvcs=$(STAMP) -tags=grpcnotrace)

# The race detector needs cgo, which needs a C compiler and the C library's
# headers. Without them the tests run without it, and the summary says so.
HAVE_CC  := $(shell $$($(GO) env CC) -E -include pthread.h -x c /dev/null >/dev/null 2>&1 && echo yes || true)
RACE     := $(if $(HAVE_CC),-race)
RACENOTE := race detector: $(if $(HAVE_CC),on for the packages with goroutines,OFF - no C compiler or C headers here (make deps))

# One build of each package serves programs, tests, vet and linters; those of
# RACED are built a second time.
STATIC   := CGO_ENABLED=0 $(GO) build
PLAIN    := CGO_ENABLED=0

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

# The labs run these programs. No test builds or downloads one.
export FLANNEL_LAB_DAEMON := $(CURDIR)/bin/flanneld
export FLANNEL_LAB_TOOL := $(CURDIR)/bin/flannelctl
export FLANNEL_LAB_PLUGINS := $(CURDIR)/bin/cni

.DEFAULT_GOAL := help

##@ See it work

# Not with go run, which reports the Ctrl-C that ends a demo as an error.
.PHONY: demo
demo: build ## three nodes in namespaces: ping all pods, break a device, watch it heal (HOLD=1 keeps it up)
	@$(STATIC) -o bin/demo ./harness/cmd/demo
	@exec bin/demo $(if $(HOLD),-hold)

.PHONY: scenario
scenario: build ## replay scenarios (NAME=vxlan-basic or 'vxlan-*', WORLD=sim|netns|vm, SEED=7, NEXTHOPS=always|never, REPORT=out.html, RECORD=1)
	@$(if $(IN_VM),$(MAKE) bin/vm)
	@cd scenarios && SCENARIO='$(NAME)' WORLD='$(WORLD)' SEED='$(SEED)' NEXTHOPS='$(NEXTHOPS)' REPORT='$(if $(REPORT),$(abspath $(REPORT)))' \
		$(if $(IN_VM),$(VM_RUN) -writable cases -writable regressions $(if $(REPORT),-writable '$(dir $(abspath $(REPORT)))') --) \
		$(GO) test $(if $(IN_VM),$(VM_EXEC)) -count=1 -timeout 20m -run '^TestScenarios$$' $(if $(RECORD),-rewrite)

# Without the race detector, which would make an emulated machine several times slower.
IN_VM   = $(filter vm,$(WORLD))
VM_RUN  = CGO_ENABLED=0 $(CURDIR)/bin/vm run -limit 40m
VM_EXEC = -exec '$(CURDIR)/bin/vm exec' -vet=off

# The parts of the core that decide. A search lists the blocks of them that it never reached.
DECIDES = $(subst $(eval ) ,$(COMMA),$(addprefix github.com/flanneld/flannel/core/,alloc backend backend/vxlan backend/hostgw backend/udp \
	firewall lease node udppath reconcile))
COMMA   = ,

.PHONY: sim
sim: bin/sim ## search for bugs in the simulator (SEEDS=1000, NODES= BACKEND=vxlan|host-gw|udp|wireguard|ipip|ipsec|extension|ali-vpc|aws-vpc|gce|tencent-vpc FAMILY=v4|v6|dual FIREWALL=iptables|nftables STORE=etcd|kube CHANGE=yes NETWORKS=yes SERVERS=yes HOSTILE=yes NEXTHOPS=always|never REPORT=out.html), or replay one (SEED=8231)
	@counters=$$(mktemp -d); trap 'rm -rf "$$counters"' EXIT; \
	GOCOVERDIR="$$counters" bin/sim $(if $(SEED),-seed $(SEED),-seeds $(or $(SEEDS),100)) $(if $(NODES),-nodes $(NODES)) \
		$(if $(BACKEND),-backend $(BACKEND)) $(if $(FAMILY),-family $(FAMILY)) $(if $(FIREWALL),-firewall $(FIREWALL)) $(if $(STORE),-store $(STORE)) $(if $(CHANGE),-change) $(if $(NETWORKS),-networks) $(if $(SERVERS),-servers) $(if $(HOSTILE),-hostile) $(if $(NEXTHOPS),-nexthops $(NEXTHOPS)) $(if $(REPORT),-report '$(REPORT)'); \
	$(if $(SEED),,$(GO) tool covdata percent -i "$$counters" -pkg $(DECIDES); echo "never reached:"; \
		$(GO) tool covdata textfmt -i "$$counters" -pkg $(DECIDES) -o "$$counters/profile"; sed -n 's,^github.com/flanneld/flannel/\(.*\) [0-9]* 0$$,  \1,p' "$$counters/profile")

.PHONY: same
same: ## run seeds of all kinds at the commit BASE and in this tree, and compare all that happened except the texts of logs (BASE=HEAD~1 SEEDS=500 FIRST=1)
	@$(if $(BASE),,$(error make same BASE=COMMIT: name the commit to compare with))
	@hack/same '$(BASE)' $(or $(SEEDS),500) $(or $(FIRST),1)

# With coverage counters, which cost next to nothing. -coverpkg must name the
# command itself, or it writes no counters at its end.
.PHONY: bin/sim
bin/sim:
	@$(STATIC) -cover -coverpkg=./core/...,./scenarios/cmd/sim -o bin/sim ./scenarios/cmd/sim

##@ Build

# The embedded etcd looks methods up by name, too. So the daemon has none, and continues as flanneld-etcd where
# it needs one.
PROGRAM_TAGS = grpcnotrace,no_embedded_etcd

.PHONY: build
build: ## bin/flanneld, bin/flanneld-etcd for --embed-etcd, bin/flannelctl and the CNI plugin bin/flannel-cni, static binaries
	@$(STATIC) -tags $(PROGRAM_TAGS) -ldflags=-s -o bin/ ./cmd/flanneld ./cmd/flannelctl ./cmd/flannel-cni
	@$(STATIC) -ldflags=-s -o bin/flanneld-etcd ./cmd/flanneld

# flannel-cni under its installed name, beside the plugins that it works with.
# Those come from a module of their own, as nothing else needs their versions.
.PHONY: plugins
plugins: build
	@mkdir -p bin/cni && cp -u bin/flannel-cni bin/cni/flannel
	@cd tools/cni && $(STATIC) -o ../../bin/cni/ tool

# After this step everything here works with GOPROXY=off, except make cluster-programs and bin/upstream-flanneld.
.PHONY: modules
modules: ## download all modules that builds and tests need
	@$(GO) list -deps -test ./... >/dev/null
	@cd tools/cni && $(GO) list -deps tool >/dev/null
	@cd tools/kube && $(GO) list -deps tool >/dev/null
	@cd tools/deploy && $(GO) list -deps -test ./... >/dev/null
	@cd tools/packages && $(GO) list -deps tool >/dev/null
	@cd tools/monitoring && $(GO) list -deps -test ./... >/dev/null
	@cd tools/etcdv2 && $(GO) list -deps tool >/dev/null
	@cd tools/mutants && $(GO) list -deps tool >/dev/null
	@cd tools/lint && $(GO) list -deps tool >/dev/null

.PHONY: manifest
manifest: ## deploy/kube-flannel.yml, from the chart in deploy/chart; its values, their schema and their table
	@$(GO) run ./hack/chart .
	@cd tools/deploy && $(GO) run . ../../deploy/chart > ../../deploy/kube-flannel.yml.new
	@mv deploy/kube-flannel.yml.new deploy/kube-flannel.yml

# The programs for the other architecture are compiled too: minutes the first time.
.PHONY: packages
packages: bin/nfpm ## .deb and .rpm for plain hosts, for amd64 and arm64, in bin/packages: docs/hosts.md (VERSION=1.2.3)
	@GO='$(GO)' hack/packages bin/packages $(VERSION)

# For the Vagrantfile: the package for this machine's architecture.
.PHONY: bin/flannel.deb
bin/flannel.deb: bin/nfpm
	@GO='$(GO)' ARCHES=$$($(GO) env GOARCH) KINDS=deb hack/packages bin/vagrant
	@mv bin/vagrant/flannel_*.deb $@ && rmdir bin/vagrant

# For the Vagrantfile: a certificate for the etcd at ETCD_IP, which vouches for itself and is that of the clients, too.
%/etcd.pem:
	@openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=flannel \
		-addext subjectAltName=IP:$(ETCD_IP) -keyout $(@D)/etcd-key.pem -out $@

bin/nfpm: tools/packages/go.mod
	@cd tools/packages && $(STATIC) -o ../../$@ github.com/goreleaser/nfpm/v2/cmd/nfpm

# The programs as built here, and the tools as deploy/Dockerfile copies them, but from this machine.
.PHONY: sbom
sbom: build ## bin/flannel.cdx.json, the modules and Debian packages that the image is made of, as CycloneDX
	@image=$$(mktemp -d); trap 'rm -rf "$$image"' EXIT; deploy/firewall-tools "$$image"; \
	mkdir -p "$$image/opt/bin"; cp bin/flanneld bin/flannel-cni "$$image/opt/bin"; \
	(cd tools/deploy && $(GO) run ./sbom "$$image") > bin/flannel.cdx.json

.PHONY: man
man: build ## manual pages of flannelctl in bin/man: man -l bin/man/flannelctl-trace.8
	@rm -rf bin/man && bin/flannelctl man bin/man

.PHONY: fmt
fmt: ## format all Go files
	@gofmt -l -w $(GODIRS)

.PHONY: clean
clean: ## remove bin/
	@rm -rf bin

##@ Check

QUICKNOTES = -note 'gofmt: clean; go vet: what go test runs of it' -note 'the linters, the race detector and the rest: make test-all'
# CHECKED is set by a caller that runs make check itself.
CHECKNOTES = -note 'gofmt, go vet, golangci-lint: $(if $(CHECKED),make check,clean)' -note '$(RACENOTE)'

# hack/deps runs before a second make: it may install the compiler that the
# race detector needs.
.PHONY: test
test: ## before a commit, in minutes: unit tests, fuzz seeds, conformance, all scenarios simulated and some on the kernel (PKG=./core/... RUN=TestName)
	@hack/deps || true
	@$(MAKE) quick-tests

.PHONY: test-all
test-all: ## everything: format, vet, lint, race detector, all tests, all scenarios on both worlds
	@hack/deps || true
	@$(MAKE) all-tests

# What make test leaves to make test-all: suites with clusters of real daemons, the proofs of the tests' own tools, and
# tests that compile much of Kubernetes.
LATER = ./bench/... ./deploy/packages ./drivers/kube ./harness ./harness/cluster/... ./harness/demo \
	./harness/dockerlab/... ./harness/kubelab ./harness/vm ./scenarios/linearizable ./scenarios/planted \
	./scenarios/report ./scenarios/servers

# The packages with goroutines. Elsewhere nothing can race, or it would do so in daemons, which are processes of their
# own: one spec of the lab has such a daemon. And the race detector makes simulations five times slower.
RACED = ./cni/... ./core/agent/... ./drivers/cloud/... ./drivers/etcd ./drivers/kube ./drivers/linux/... \
	./drivers/remote/... ./harness/internal/... ./internal/... ./tools/daemon ./tools/dump ./tools/mesh

# A spec of the lab runs this daemon, which the race detector watches. Its packages are compiled for the tests anyway.
.PHONY: bin/raced/flanneld
bin/raced/flanneld:
	@$(if $(HAVE_CC),CGO_ENABLED=1 $(GO) build -race -tags $(PROGRAM_TAGS) -o $@ ./cmd/flanneld)

TESTS        = bin/testsum -results "$$results" $(1) -- -count=1 -timeout 20m -run '$(RUN)' $(2)
RESULTS_FILE = results='$(or $(RESULTS),$(shell mktemp -u))'; $(if $(RESULTS),,trap 'rm -f "$$results" "$$results.lock"' EXIT;)

# The packages that PKG names; of all, those of this tier. Many tests wait, so three packages at a time use two cores.
.PHONY: quick-tests
quick-tests: fmt-check plugins bin/testsum
	@$(RESULTS_FILE) packages=$$($(GO) list $(PKG)); \
	$(if $(filter ./...,$(PKG)),later=$$($(GO) list $(LATER)); packages=$$(grep -vxF "$$later" <<<"$$packages");) \
	$(PLAIN) $(call TESTS,$(QUICKNOTES),-short -p 3 $$packages)

.PHONY: all-tests
all-tests: export FLANNEL_LAB_RACED := $(if $(HAVE_CC),$(CURDIR)/bin/raced/flanneld)
all-tests: $(if $(CHECKED),,check) plugins bin/testsum bin/raced/flanneld
	@$(RESULTS_FILE) status=0; \
	packages=$$($(GO) list $(PKG)) raced=$(if $(RACE),$$($(GO) list $(RACED)),-); \
	plain=$$(grep -vxF -e "$$raced" <<<"$$packages" || true); \
	raced=$$(grep -xF -e "$$raced" <<<"$$packages" || true); \
	[ -z "$$raced" ] || CGO_ENABLED=1 $(call TESTS,$(CHECKNOTES) $(if $(RESULTS),-more,$${plain:+-more}),$(RACE) -vet=off -p $(JOBS) $$raced) || status=1; \
	[ -z "$$plain" ] || $(PLAIN) $(call TESTS,$(CHECKNOTES) $(if $(RESULTS),-more),-vet=off -p $(JOBS) $$plain) || status=1; \
	exit $$status

# Kubernetes' programs are built from a module of their own, which keeps its
# dependencies out of this one. It takes minutes the first time; go keeps the result.
KUBE         = bin/kube-apiserver bin/kube-proxy
KUBE_VERSION = $(shell cd tools/kube && $(GO) list -m -f '{{.Version}}' k8s.io/kubernetes)

$(KUBE): bin/%: tools/kube/go.mod
	@echo "building $* $(KUBE_VERSION): minutes the first time, seconds from then on"
	@cd tools/kube && $(STATIC) -v -o ../../$@ \
		-ldflags '-s -w -X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION)' k8s.io/kubernetes/cmd/$* 2>&1 | ../../hack/compiling

.PHONY: kube
kube: $(KUBE) ## the programs of Kubernetes that test-kube runs

# The manifest with other values of the chart, a file each.
MANIFESTS = wireguard:flannel.backend=wireguard udp:flannel.backend=udp host-gw:flannel.backend=host-gw \
	dual:podCidrv6=fd00:10:244::/56 netpol:netpol.enabled=true

# And with whole values files: those that shape the pods, and all that upstream's chart has.
VALUES_FILES = pods upstream-changed

.PHONY: bin/manifests
bin/manifests:
	@mkdir -p $@ && cd tools/deploy && $(STATIC) -o ../../bin/deploy .
	@$(foreach m,$(MANIFESTS),bin/deploy -set $(subst $(firstword $(subst :, ,$(m))):,,$(m)) deploy/chart > \
		$@/$(firstword $(subst :, ,$(m))).yml;)
	@$(foreach f,$(VALUES_FILES),bin/deploy -f tools/deploy/testdata/$(f).yaml deploy/chart > $@/$(f).yml;)

# With API the specs of kube-proxy are left out: it may be no newer than the API server.
ASKED = $(if $(API),FLANNEL_LAB_APISERVER=$$(hack/apiserver $(API)) || exit 1;)

# The last of several runs that count into RESULTS: it prints the summary.
.PHONY: test-kube
test-kube: RESULTS := $(or $(RESULTS),$(shell mktemp -u))
test-kube: export FLANNEL_LAB_APISERVER := $(CURDIR)/bin/kube-apiserver
test-kube: export FLANNEL_LAB_PROXY := $(CURDIR)/bin/kube-proxy
test-kube: export FLANNEL_LAB_MANIFESTS := $(CURDIR)/bin/manifests
test-kube: export FLANNEL_LAB_UPSTREAM = $(wildcard $(CURDIR)/bin/upstream-flanneld)
test-kube: build bin/manifests bin/testsum $(KUBE) ## flanneld against a real Kubernetes API server and kube-proxy, and what deploy/ holds, with the alert rules (FOCUS='words of a spec', API=v1.24.17 for another release of the API server)
	@trap 'rm -f "$(RESULTS)"' EXIT; status=0; $(ASKED) \
	CGO_ENABLED=0 bin/testsum -more -results '$(RESULTS)' -C tools/deploy -- -count=1 ./... || status=$$?; \
	CGO_ENABLED=0 bin/testsum -more -results '$(RESULTS)' -C tools/monitoring -- -count=1 ./... || status=$$?; \
	$(PLAIN) bin/testsum -note "Kubernetes $(or $(API),$(KUBE_VERSION))" $(if $(SUMMARY_NOTE),-note "$$SUMMARY_NOTE") -results '$(RESULTS)' -- -vet=off -count=1 -timeout 30m ./harness/kubelab $(if $(FOCUS),-ginkgo.focus '$(FOCUS)') $(if $(API),-ginkgo.skip 'Beside kube-proxy') || status=$$?; \
	exit $$status

# Kept in a folder of the user's cache that is named after the versions.
.PHONY: cluster-programs
cluster-programs: ## build the programs of a whole Kubernetes cluster for make cluster: a quarter of an hour the first time, seconds from then on
	@hack/cluster-programs

# The sidecar for network policies, in the version that its module has here.
NETPOL_SET = netpol.enabled=true netpol.image.tag=$(shell cd tools/netpol && $(GO) list -m -f '{{.Version}}' sigs.k8s.io/kube-network-policies)

# The manifest as deploy/ has it, or one that the chart makes with other values.
CLUSTER_SET      = $(if $(BACKEND),flannel.backend=$(BACKEND)) $(if $(FAMILY),podCidrv6=fd00:10:244::/56) $(if $(NETPOL),$(NETPOL_SET)) $(SET)
CLUSTER_MANIFEST = $(CURDIR)/$(if $(strip $(CLUSTER_SET)),bin/cluster.yml,deploy/kube-flannel.yml)

# The word debian if some nodes are virtual machines. No variable of the environment decides that.
EMULATED = $(if $(filter command,$(firstword $(origin KERNEL))),$(if $(filter-out debian,$(KERNEL)),$(error KERNEL=$(KERNEL): only debian is known),$(KERNEL)))

.PHONY: bin/cluster.yml
bin/cluster.yml:
	@mkdir -p bin && cd tools/deploy && $(GO) run . $(addprefix -set ,$(CLUSTER_SET)) ../../deploy/chart > ../../$@

.PHONY: bin/cluster-wireguard.yml
bin/cluster-wireguard.yml:
	@mkdir -p bin && cd tools/deploy && $(GO) run . $(addprefix -set ,$(CLUSTER_SET)) -set flannel.backend=wireguard ../../deploy/chart > ../../$@

.PHONY: cluster
cluster: export FLANNEL_LAB_CLUSTER = $(shell hack/cluster-programs -where)
cluster: cluster-programs plugins bin/cluster.yml $(if $(EMULATED),bin/vm) ## a Kubernetes cluster of three nodes with flannel as deploy/ installs it (HOLD=1 keeps it up, MODE=iptables BACKEND=wireguard FAMILY=dual NETPOL=yes SET=flannel.mtu=1400, KERNEL=debian for two nodes that are virtual machines; root)
	@$(STATIC) -o bin/cluster ./harness/cmd/cluster
	@$(if $(EMULATED),bin/vm kernel >/dev/null)
	@exec bin/cluster -manifest '$(CLUSTER_MANIFEST)' $(if $(HOLD),-hold) $(if $(MODE),-proxy-mode $(MODE)) $(if $(FAMILY),-dual-stack) $(if $(EMULATED),-emulated 2)

# A caller that names RESULTS closes with a run of its own.
.PHONY: test-cluster
test-cluster: RESULTS := $(or $(RESULTS),$(shell mktemp -u))
test-cluster: MORE = $(filter command,$(firstword $(origin RESULTS)))
test-cluster: export FLANNEL_LAB_CLUSTER = $(shell hack/cluster-programs -where)
test-cluster: export FLANNEL_LAB_CLUSTER_MODE = $(MODE)
test-cluster: export FLANNEL_LAB_CLUSTER_FAMILY = $(FAMILY)
test-cluster: export FLANNEL_LAB_CLUSTER_NETPOL = $(NETPOL)
test-cluster: export FLANNEL_LAB_CLUSTER_MANIFEST = $(CLUSTER_MANIFEST)
test-cluster: export FLANNEL_LAB_CLUSTER_SET = $(CLUSTER_SET)
test-cluster: export FLANNEL_LAB_CLUSTER_GUEST = $(if $(EMULATED),$(CURDIR)/bin/vm)
test-cluster: export FLANNEL_LAB_CLUSTER_WIREGUARD = $(CURDIR)/bin/cluster-wireguard.yml
test-cluster: cluster-programs plugins bin/testsum $(if $(EMULATED),bin/vm) bin/cluster.yml bin/cluster-wireguard.yml ## flannel in a whole cluster, and Kubernetes' own network specs (FOCUS='words of a spec', MODE=iptables BACKEND=wireguard FAMILY=dual NETPOL=yes SET=flannel.mtu=1400, KERNEL=debian for two nodes that are virtual machines; root)
	@$(if $(EMULATED),bin/vm kernel >/dev/null)
	@$(if $(MORE),,trap 'rm -f "$(RESULTS)"' EXIT;) \
	CGO_ENABLED=0 bin/testsum $(if $(MORE),-more) -results '$(RESULTS)' -- -vet=off -count=1 -timeout $(if $(EMULATED),90m,45m) ./harness/cluster/specs $(if $(FOCUS),-ginkgo.focus '$(FOCUS)') $(if $(EMULATED),-ginkgo.label-filter 'any kernel')

# Outside of make test, as it builds all packages twice: the two builds have to be equal.
.PHONY: test-packages
test-packages: RESULTS := $(or $(RESULTS),$(shell mktemp -u))
test-packages: packages bin/testsum ## the packages for plain hosts: contents, reproducible, installed to purged; minutes the first time
	@hack/deps packages || true
	@trap 'rm -f "$(RESULTS)"' EXIT; GO='$(GO)' hack/packages bin/packages/again $(VERSION); \
	FLANNEL_PACKAGES='$(CURDIR)/bin/packages' FLANNEL_PACKAGES_AGAIN='$(CURDIR)/bin/packages/again' \
		CGO_ENABLED=0 bin/testsum -results '$(RESULTS)' -- -vet=off -count=1 ./deploy/packages

# What reads and writes the bytes of packets, records and netlink.
CODECS = ./core/backend/... ./core/cidr ./core/config ./core/dataplane ./core/lease ./core/probe ./core/subnetfile ./core/udppath ./drivers/linux/internal/nl
.PHONY: test-endian
test-endian: ## the codecs and the udp backend's packet path on a big-endian processor, s390x in QEMU's emulation: a minute (apt-get install qemu-user-static)
	@command -v qemu-s390x-static >/dev/null || { echo "test-endian needs qemu-s390x-static: apt-get install qemu-user-static" >&2; exit 1; }
	@GOARCH=s390x CGO_ENABLED=0 $(GO) test -short -vet=off -exec qemu-s390x-static $(CODECS)

# etcd 3.5 is the last one with the API v2. It comes from a module of its own, since this one has a later etcd.
bin/etcd-v2: tools/etcdv2/go.mod
	@echo "building etcd 3.5: a minute the first time, seconds from then on"
	@cd tools/etcdv2 && $(STATIC) -o ../../$@ go.etcd.io/etcd/server/v3

# A caller that names RESULTS closes with a run of its own.
.PHONY: test-etcd-v2
test-etcd-v2: RESULTS := $(or $(RESULTS),$(shell mktemp -u))
test-etcd-v2: MORE = $(filter command,$(firstword $(origin RESULTS)))
test-etcd-v2: export FLANNEL_ETCD_V2 := $(CURDIR)/bin/etcd-v2
test-etcd-v2: build bin/testsum bin/etcd-v2 ## flannelctl migrate from a real etcd 3.5 with its API v2
	@$(if $(MORE),,trap 'rm -f "$(RESULTS)"' EXIT;) $(PLAIN) bin/testsum $(if $(MORE),-more) -results '$(RESULTS)' -- -vet=off -count=1 -timeout 10m -run '^TestMigrat' ./tools/flannelctl

# A caller that names RESULTS closes with a run of its own. Without an engine the suite is skipped by name.
.PHONY: test-docker
test-docker: RESULTS := $(or $(RESULTS),$(shell mktemp -u))
test-docker: MORE = $(filter command,$(firstword $(origin RESULTS)))
test-docker: build bin/testsum ## real Docker engines, from Debian, on three nodes: containers, restarts, another subnet (FOCUS='words of a spec'; root)
	@$(if $(MORE),,trap 'rm -f "$(RESULTS)"' EXIT;) FLANNEL_LAB_DOCKER=$$(hack/docker-programs || true) CGO_ENABLED=0 \
		bin/testsum $(if $(MORE),-more) -results '$(RESULTS)' -- -vet=off -count=1 -timeout 15m ./harness/dockerlab $(if $(FOCUS),-ginkgo.focus '$(FOCUS)')

# Outside of CI: a build in an empty container compiles everything. hack/docker-bases alone keeps something between runs.
.PHONY: test-image
test-image: RESULTS := $(or $(RESULTS),$(shell mktemp -u))
test-image: build bin/testsum ## the image: a real Docker engine builds deploy/Dockerfile from Debian's packages, and runs it as a node's daemon: six to nine minutes on two busy cores, and five more the first time (BUILDER=classic for the one before BuildKit, FOCUS='words of a spec'; root, and 4 GB of memory)
	@trap 'rm -f "$(RESULTS)"' EXIT; programs=$$(hack/docker-programs); bases=$$(GO='$(GO)' hack/docker-bases); \
	FLANNEL_LAB_DOCKER=$$programs FLANNEL_LAB_DOCKER_BASES=$$bases FLANNEL_LAB_DOCKER_BUILDER='$(BUILDER)' CGO_ENABLED=0 \
		bin/testsum -results '$(RESULTS)' -- -vet=off -count=1 -timeout 40m ./harness/dockerlab/image $(if $(FOCUS),-ginkgo.focus '$(FOCUS)')

# Its udp backend is in C. make modules leaves it out: nothing else needs its modules.
bin/upstream-flanneld: tools/upstream/go.mod
	@echo "building upstream's flanneld: four minutes the first time, seconds from then on"
	@cd tools/upstream && CGO_ENABLED=1 $(GO) build -v -ldflags '-s -w' -o ../../$@ github.com/flannel-io/flannel 2>&1 | ../../hack/compiling

# A caller that names RESULTS closes with a run of its own.
.PHONY: test-upstream
test-upstream: RESULTS := $(or $(RESULTS),$(shell mktemp -u))
test-upstream: MORE = $(filter command,$(firstword $(origin RESULTS)))
test-upstream: export FLANNEL_LAB_UPSTREAM := $(CURDIR)/bin/upstream-flanneld
test-upstream: build bin/testsum bin/upstream-flanneld ## clusters in which upstream's own daemon runs beside ours, and is replaced by it (FOCUS='words of a spec')
	@$(if $(MORE),,trap 'rm -f "$(RESULTS)"' EXIT;) CGO_ENABLED=0 \
		bin/testsum $(if $(MORE),-more) -results '$(RESULTS)' -- -vet=off -count=1 -timeout 15m ./harness -ginkgo.focus '$(or $(FOCUS),upstream.s own daemon)'

# MACHINES=1 leaves half of two cores to other work. A caller that names RESULTS closes with a
# run of its own.
.PHONY: test-vm
test-vm: RESULTS := $(or $(RESULTS),$(shell mktemp -u))
test-vm: MORE = $(filter command,$(firstword $(origin RESULTS)))
test-vm: export FLANNEL_LAB_VM := $(CURDIR)/bin/vm
test-vm: build bin/testsum bin/vm ## conformance, scenarios and the systemd units on a stock Debian kernel in QEMU (MACHINES=1|2); it says what to install
	@hack/deps || true
	@$(if $(MORE),,trap 'rm -f "$(RESULTS)" "$(RESULTS).lock"' EXIT;) $(PLAIN) RESULTS='$(RESULTS)' MORE='$(MORE)' MACHINES='$(MACHINES)' hack/test-vm

.PHONY: check
check: fmt-check lint ## format and lint only

.PHONY: fmt-check
fmt-check:
	@bad=$$(gofmt -l $(GODIRS)); [ -z "$$bad" ] || { echo "not formatted (make fmt):" $$bad; exit 1; }

# Compiling comes first, to show that it goes on.
.PHONY: vet
vet: compiled ## go vet
	@$(PLAIN) $(GO) vet ./...

# golangci-lint takes minutes the first time, seconds from then on: it keeps its results.
.PHONY: lint
lint: compiled bin/golangci-lint bin/style ## golangci-lint, and our own rules (LIST=core/node: of that folder alone)
	@$(PLAIN) bin/golangci-lint run $(or $(LIST:%=./%/...),./...)
	@$(PLAIN) $(GO) vet -vettool='$(CURDIR)/bin/style' $(or $(LIST:%=./%/...),./...)
	@bin/style documents

.PHONY: style
style: bin/golangci-lint bin/style ## the same without compiling everything first (LIST=core/node)
	@$(PLAIN) bin/golangci-lint run $(or $(LIST:%=./%/...),./...)
	@$(PLAIN) $(GO) vet -vettool='$(CURDIR)/bin/style' $(or $(LIST:%=./%/...),./...)
	@bin/style documents

.PHONY: compiled
compiled:
	@$(PLAIN) $(GO) build -v ./... 2>&1 | hack/compiling

# From a module of its own, so that make test compiles nothing of it.
bin/golangci-lint: tools/lint/go.mod
	@cd tools/lint && $(STATIC) -v -ldflags=-s -o ../../$@ tool 2>&1 | ../../hack/compiling

bin/style: $(wildcard hack/style/*.go) go.mod
	@$(STATIC) -o $@ ./hack/style

# Suites that wait for real kernels are those that a busy machine breaks.
.PHONY: stress
stress: plugins bin/testsum ## repeat tests beside four busy loops and a writer of the disk, and count what failed (PKG=./core/agent N=20 RUN=TestName)
	@$(if $(filter ./...,$(PKG)),$(error make stress PKG=./core/agent: name the packages))
	@$(PLAIN) hack/stress $(or $(N),20) -vet=off -count=1 -timeout 30m -run '$(RUN)' $(PKG)

.PHONY: test-odd
test-odd: ## a part of make test with umask 077, a long TMPDIR with spaces, few open files, no HOME, no IPv6 (root), odd GOFLAGS, locale, time zone, proxies and host name
	@hack/odd-places

.PHONY: bench
bench: export FLANNEL_LAB_UPSTREAM = $(wildcard $(CURDIR)/bin/upstream-flanneld)
bench: export FLANNEL_LAB_APISERVER = $(wildcard $(CURDIR)/bin/kube-apiserver)
bench: build ## benchmarks, one at a time, whole nodes last: docs/benchmarks.md (BENCH=regexp, PKG=./bench)
	@$(GO) test -run '^$$' -bench '$(BENCH)' -p 1 -timeout 60m $(patsubst ./...,./core/... ./drivers/... ./scenarios/simbench ./bench,$(PKG)) | grep -v -e '^ok .*\[no tests' -e '\[no test files\]' -e '^PASS$$'

.PHONY: bench-udp
bench-udp: export FLANNEL_LAB_UPSTREAM = $(wildcard $(CURDIR)/bin/upstream-flanneld)
bench-udp: ## the udp backend beside the kernel's vxlan, in turns: docs/udp.md (ROUNDS=9, UDPFLAGS='-loads tcp1'; with upstream's after make bin/upstream-flanneld; as root)
	@hack/deps || true
	@$(STATIC) -o bin/bench-udp ./bench/udp
	@exec bin/bench-udp $(if $(ROUNDS),-rounds $(ROUNDS)) $(UDPFLAGS)

.PHONY: bench-wireguard
bench-wireguard: ## WireGuard in userspace beside the kernel's vxlan, in turns: docs/benchmarks.md (ROUNDS=9, WGFLAGS='-loads tcp8'; as root)
	@hack/deps || true
	@$(STATIC) -o bin/bench-udp ./bench/udp
	@exec bin/bench-udp $(if $(ROUNDS),-rounds $(ROUNDS)) -ways vxlan,wireguard -paths pod -loads tcp1 $(WGFLAGS)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (default 10s) each, then RUNS (2000) random runs on kernel and simulator
	@FUZZTIME=$(FUZZTIME) RUNS=$(RUNS) GO=$(GO) hack/fuzz

# It compiles once for each mutant: some minutes a package. With SINCE only what has changed since that commit.
.PHONY: mutants
mutants: ## change the code of packages in small ways and list what their unit tests miss: docs/mutation.md (PKG=./core/lease SINCE=main)
	@$(if $(filter ./...,$(PKG)),$(error make mutants PKG=./core/lease: name a package))
	@cd tools/mutants && $(STATIC) -o ../../bin/gremlins tool
	@exec bin/gremlins unleash $(PKG) --output-statuses lcts --timeout-coefficient 20 $(if $(SINCE),--diff $(SINCE))

.PHONY: deps
deps: ## install what the tests can use and this machine lacks (Debian; says so when not root)
	@hack/deps

.PHONY: bin/vm
bin/vm:
	@$(STATIC) -o $@ ./harness/cmd/vm

bin/testsum: $(wildcard hack/testsum/*.go internal/suite/outcome/*.go) go.mod
	@$(STATIC) -o $@ ./hack/testsum

# The folders with Go files.
GODIRS = $(wildcard bench cmd cni core deploy docs drivers harness hack internal scenarios tools)

##@ Help

.PHONY: help
help: ## this text
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@printf '\nNew here: make demo. Before a commit: make test.\n'
