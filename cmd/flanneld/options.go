package main

import (
	"flag"
	"io"
	"time"

	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/cni/install"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/drivers/linux/charon"
	"github.com/flanneld/flannel/internal/daemonflags"
	"github.com/flanneld/flannel/internal/hostpaths"
)

// The values that several files use.
const (
	onLossReacquire  = "reacquire"
	onLossExit       = "exit"
	minRenewMargin   = 1    // minutes
	maxRenewMargin   = 1439 // minutes; a minute less than upstream's TTL
	minLeaseTTL      = 5 * time.Second
	minProbeInterval = time.Second
	maxLeaseTTL      = 10 * 365 * 24 * time.Hour
	defaultLeaseTTL  = 24 * time.Hour
)

// options are the values of all flags (interop 1.2).
type options struct {
	getenv func(string) string // options without a flag

	etcd                         daemonflags.Etcd
	embedEtcd                    optionalDir
	allowExtension               bool
	servers                      servers
	ifaces, ifaceRegexes         list
	ifaceCanReach                string
	ifaceFromNode                bool
	publicIP, publicIPv6         string
	subnetFile, stateFile        string
	networks                     []string // their names; nil: there is the unnamed one
	networkList, subnetDir       string
	watchNetworks                bool
	renewMargin                  int // minutes
	leaseTTL                     time.Duration
	changeLimit                  time.Duration
	onLeaseLost                  choice
	ipMasq, ipMasqNoRandom       bool
	iptablesResync               int // seconds
	forwardRules, blackholeRoute bool
	nextHopsFrom                 int
	ipForward                    bool
	kube                         daemonflags.Kube
	setNetworkUnavailable        bool
	netConfigPath                string
	charonExec, charonURI        string
	healthzIP                    string
	healthzPort                  int
	healthzStatus                bool
	metrics, metricsPerPeer      bool
	probeInterval                time.Duration
	probeUnreadyAfter            time.Duration
	version                      bool
	installCNI                   bool
	cni                          install.Files
	cniVersions                  choice
}

// define makes the flag set that fills o in. Parsing it prints nothing: the
// caller reports errors.
func (o *options) define() *flag.FlagSet {
	fs := flag.NewFlagSet("flanneld", flag.ContinueOnError)
	fs.Usage = func() {}
	fs.SetOutput(io.Discard)
	o.defineEtcd(fs)
	o.defineTrust(fs)
	o.defineServers(fs)
	o.defineNode(fs)
	o.defineFirewall(fs)
	o.defineIPsec(fs)
	o.defineKube(fs)
	o.defineProcess(fs)
	o.defineInstall(fs)
	defineLogging(fs)
	return fs
}

func (o *options) defineEtcd(fs *flag.FlagSet) {
	o.etcd.Define(fs)
	o.embedEtcd.byDefault = hostpaths.EmbeddedDir
	fs.Var(&o.embedEtcd, "embed-etcd", "run an etcd in this process, with its data in the given `dir` ("+
		hostpaths.EmbeddedDir+" if none is given), on a socket there that only root can use, and on an https URL in "+
		"--etcd-endpoints, where clients have to show a certificate; while it holds no network config, "+
		"--net-config-path is stored there")
}

func (o *options) defineNode(fs *flag.FlagSet) {
	fs.Var(&o.ifaces, "iface", "interface `name or IP` that carries the packets between hosts; "+
		"may be repeated, the first that fits is used")
	fs.Var(&o.ifaceRegexes, "iface-regex",
		"regular `expression` for the interface's addresses, then names; may be repeated, tried after --iface")
	fs.StringVar(&o.ifaceCanReach, "iface-can-reach", "", "take the interface of the route to this `IP`; tried last")
	fs.BoolVar(&o.ifaceFromNode, "iface-from-node", false, "with --kube-subnet-mgr: unless another option or the node's "+
		"annotation chooses, take the interface that holds the InternalIP of the node object instead of the default "+
		"route's")
	fs.StringVar(&o.publicIP, "public-ip", "",
		"IPv4 `address` at which the other hosts reach this one; also picks the interface if nothing else does")
	fs.StringVar(&o.publicIPv6, "public-ipv6", "", "the same for an IPv6 `address`")
	fs.StringVar(&o.subnetFile, "subnet-file", hostpaths.SubnetFile,
		"`file` that announces the subnet to CNI plugins and Docker")
	fs.StringVar(&o.stateFile, "state-file", hostpaths.StateFile,
		"`file` that keeps the last good state, for a start while the datastore is away; empty: none")
	fs.StringVar(&o.networkList, "networks", "", "run these networks side by side: their `names`, separated by commas; "+
		"the data of each lie at <etcd-prefix>/<name>, and its subnet file is <subnet-dir>/<name>.env; "+
		"empty: run one network, which has no name")
	fs.BoolVar(&o.watchNetworks, "watch-networks", false, "run the networks that have a config at "+
		"<etcd-prefix>/<name>/config, as they come and go; with --networks, of those alone")
	fs.StringVar(&o.subnetDir, "subnet-dir", hostpaths.SubnetDir,
		"`directory` of the subnet files with --networks or --watch-networks")
	fs.IntVar(&o.renewMargin, "subnet-lease-renew-margin", 60,
		"renew the lease at the latest this many `minutes` before it ends, 1 to 1439")
	fs.DurationVar(&o.leaseTTL, "subnet-lease-ttl", defaultLeaseTTL,
		"`time` after which the lease ends unless renewed, 5s or more")
	fs.DurationVar(&o.changeLimit, "backend-change-limit", time.Hour, "`time` after which a change of the backend ends: "+
		"for how long the previous backend stays that no config names in Formerly, or that is not encrypted where the "+
		"present one is")
	o.onLeaseLost = choice{value: onLossReacquire, among: []string{onLossReacquire, onLossExit}}
	fs.Var(&o.onLeaseLost, "on-lease-lost", "`what` to do when the lease is lost: reacquire, or exit with status 1")
}

func (o *options) defineFirewall(fs *flag.FlagSet) {
	fs.BoolVar(&o.ipMasq, "ip-masq", false, "install masquerade rules")
	fs.BoolVar(&o.ipMasqNoRandom, "ip-masq-fully-random-disable", false, "never masquerade with fully random source ports")
	fs.IntVar(&o.iptablesResync, "iptables-resync", 5, "check the firewall rules at least every so many `seconds`")
	fs.BoolVar(&o.forwardRules, "iptables-forward-rules", true, "install rules that let forwarded packets pass")
	fs.BoolVar(&o.ipForward, "ip-forward", false,
		"keep the kernel's IP forwarding on, for the families of the network config; "+
			"without it flanneld only reports that it is off, and is not ready")
	fs.IntVar(&o.nextHopsFrom, "next-hop-objects", node.DefaultNextHopsFrom,
		"use the kernel's next-hop objects for IPv4 routes from this `number` of peers upwards; 0: never")
	fs.BoolVar(&o.blackholeRoute, "ip-blackhole-route", false, "keep a blackhole route for this host's subnet")
}

func (o *options) defineIPsec(fs *flag.FlagSet) {
	fs.StringVar(&o.charonExec, "charon-exec-path", "",
		"`file` of strongSwan's charon, for the backend ipsec; empty: the first on PATH or in the usual places")
	fs.StringVar(&o.charonURI, "charon-vici-uri", charon.DefaultURI,
		"`uri` of the socket at which this daemon's charon listens")
}

func (o *options) defineKube(fs *flag.FlagSet) {
	o.kube.Define(fs)
	fs.BoolVar(&o.setNetworkUnavailable, "set-node-network-unavailable", true,
		"publish the node condition NetworkUnavailable")
}

func (o *options) defineProcess(fs *flag.FlagSet) {
	fs.StringVar(&o.netConfigPath, "net-config-path", daemonflags.NetConfig,
		"network config `file`, for --kube-subnet-mgr and --embed-etcd")
	fs.StringVar(&o.healthzIP, "healthz-ip", "0.0.0.0", "`address` to serve /healthz, /readyz and /status at")
	fs.IntVar(&o.healthzPort, "healthz-port", 0, "`port` to serve them at; 0: do not serve them")
	fs.BoolVar(&o.healthzStatus, "healthz-status", false,
		"serve /status, /peers, /diff, /state and /events to other hosts and pods too, "+
			"not only to requests from loopback")
	fs.BoolVar(&o.metrics, "metrics", true, "serve /metrics for Prometheus there too, to every client")
	fs.BoolVar(&o.metricsPerPeer, "metrics-per-peer", false, "add series for each peer to /metrics")
	fs.DurationVar(&o.probeInterval, "probe-interval", time.Minute,
		"how often to probe each peer, as a `time` of 1s or more; 0: never")
	fs.DurationVar(&o.probeUnreadyAfter, "probe-unready-after", 30*time.Second,
		"`time` for which all of two or more peers answer no probe before /readyz fails; 0: it never fails for that")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
}

// defineLogging adds those of klog's flags that are part of the contract.
func defineLogging(fs *flag.FlagSet) {
	var all flag.FlagSet
	klog.InitFlags(&all)
	usages := map[string]string{
		"v":                "verbosity `level`: 0, 1, 2, 4 or 6",
		"vmodule":          "levels for single source files, as `pattern=level,...`",
		"log_backtrace_at": "`file:line` of a log statement that prints a stack trace",
	}
	for _, name := range []string{"v", "vmodule", "log_backtrace_at"} {
		fs.Var(all.Lookup(name).Value, name, usages[name])
	}
}
