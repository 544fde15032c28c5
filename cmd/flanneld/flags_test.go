package main

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/internal/daemonflags"
)

// parse reads a command line as the daemon does.
func parse(args ...string) (*options, *flag.FlagSet, error) {
	o := &options{}
	fs := o.define()
	return o, fs, fs.Parse(args)
}

// The table of interop 1.2, and our additional flags.
func TestDefaults(t *testing.T) {
	want := map[string]string{
		"etcd-endpoints":  "http://127.0.0.1:4001,http://127.0.0.1:2379",
		"etcd-prefix":     "/coreos.com/network",
		"etcd-keyfile":    "",
		"etcd-certfile":   "",
		"etcd-cafile":     "",
		"etcd-username":   "",
		"etcd-password":   "",
		"iface":           "",
		"iface-regex":     "",
		"iface-can-reach": "",
		"iface-from-node": "false",
		"public-ip":       "",
		"public-ipv6":     "",
		"subnet-file":     "/run/flannel/subnet.env",
		"networks":        "", "watch-networks": "false",
		"subnet-dir":                   "/run/flannel/networks",
		"subnet-lease-renew-margin":    "60",
		"ip-masq":                      "false",
		"ip-masq-fully-random-disable": "false",
		"iptables-resync":              "5",
		"iptables-forward-rules":       "true",
		"ip-forward":                   "false",
		"ip-blackhole-route":           "false",
		"next-hop-objects":             "2000",
		"kube-subnet-mgr":              "false",
		"kube-api-url":                 "",
		"kubeconfig-file":              "",
		"kube-annotation-prefix":       "flannel.alpha.coreos.com",
		"net-config-path":              "/etc/kube-flannel/net-conf.json",
		"set-node-network-unavailable": "true",
		"charon-exec-path":             "",
		"charon-vici-uri":              "unix:///var/run/charon.vici",
		"healthz-ip":                   "0.0.0.0",
		"healthz-port":                 "0",
		"healthz-status":               "false",
		"metrics":                      "true",
		"metrics-per-peer":             "false",
		"probe-interval":               "1m0s",
		"probe-unready-after":          "30s",
		"version":                      "false",
		"v":                            "0",
		"vmodule":                      "",
		"log_backtrace_at":             ":0", // klog's word for none

		"remote": "", "remote-prefix": "/v1/_", "remote-keyfile": "", "remote-certfile": "", "remote-cafile": "",
		"listen": "", "listen-own-records": "true", "listen-identity": "auto", "listen-client-connections": "100",

		"embed-etcd": "", "allow-extension": "false",
		"install-cni": "false", "cni-bin-dir": "/opt/cni/bin", "cni-conf-dir": "/etc/cni/net.d",
		"cni-conf":         "/etc/kube-flannel/cni-conf.json",
		"cni-versions":     "auto",
		"subnet-lease-ttl": "24h0m0s",
		"on-lease-lost":    "reacquire",

		"backend-change-limit": "1h0m0s",
		"state-file":           "/var/lib/flannel<subnet-file>.state",
	}
	got := map[string]string{}
	_, fs, err := parse()
	if err != nil {
		t.Fatal(err)
	}
	fs.VisitAll(func(f *flag.Flag) { got[f.Name] = f.DefValue })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSyntax(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want func(*options)
	}{
		"one dash, value apart":      {[]string{"-iface", "eth0"}, func(o *options) { o.ifaces = list{"eth0"} }},
		"two dashes, value attached": {[]string{"--iface=eth0"}, func(o *options) { o.ifaces = list{"eth0"} }},
		"repeated": {[]string{"--iface=eth0", "-iface=eth1"},
			func(o *options) { o.ifaces = list{"eth0", "eth1"} }},
		"commas are not split": {[]string{"--iface-regex=a,b"}, func(o *options) { o.ifaceRegexes = list{"a,b"} }},
		"bool":                 {[]string{"--ip-masq"}, func(o *options) { o.ipMasq = true }},
		"bool with value": {[]string{"--iptables-forward-rules=false"},
			func(o *options) { o.forwardRules = false }},
		"bool takes no word": {[]string{"--ip-masq", "false", "--public-ip=1.2.3.4"},
			func(o *options) { o.ipMasq = true }},
		"the first word ends options": {[]string{"word", "--nonsense"}, func(*options) {}},
		"so do two dashes":            {[]string{"--", "--nonsense"}, func(*options) {}},
		"last one counts": {[]string{"--healthz-port=1", "--healthz-port=2"},
			func(o *options) { o.healthzPort = 2 }},
		"duration": {[]string{"--subnet-lease-ttl=90s"},
			func(o *options) { o.leaseTTL = 90 * time.Second }},
		"choice": {[]string{"--on-lease-lost=exit"}, func(o *options) { o.onLeaseLost.value = "exit" }},
		"etcd within": {[]string{"--embed-etcd"},
			func(o *options) { o.embedEtcd.dir = "/var/lib/flannel/etcd" }},
		"embedded etcd, data elsewhere": {[]string{"--embed-etcd=/data"}, func(o *options) { o.embedEtcd.dir = "/data" }},
		"embedded etcd, switched on": {[]string{"--embed-etcd=true"},
			func(o *options) { o.embedEtcd.dir = "/var/lib/flannel/etcd" }},
		"embedded etcd, switched off": {[]string{"--embed-etcd=/data", "--embed-etcd=false"}, func(*options) {}},
		"embedded etcd takes no word": {[]string{"--embed-etcd", "/data"},
			func(o *options) { o.embedEtcd.dir = "/var/lib/flannel/etcd" }},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := parse(c.args...)
			if err != nil {
				t.Fatal(err)
			}
			want, _, _ := parse()
			c.want(want)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(options{}, optionalDir{}, choice{}, servers{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for args, want := range map[string]string{
		"--nonsense":               "unknown flag --nonsense",
		"-nonsense=1":              "unknown flag --nonsense",
		"--healthz-port=x":         `invalid value "x" for flag -healthz-port: parse error`,
		"--healthz-port":           "flag needs an argument: -healthz-port",
		"--ip-masq=maybe":          `invalid boolean value "maybe" for -ip-masq: parse error`,
		"--subnet-lease-ttl=3":     `invalid value "3" for flag -subnet-lease-ttl: parse error`,
		"--on-lease-lost=panic":    `invalid value "panic" for flag -on-lease-lost: want reacquire or exit`,
		"--v=much":                 `invalid value "much" for flag -v: strconv.ParseInt: parsing "much": invalid syntax`,
		"--log_backtrace_at=x":     `invalid value "x" for flag -log_backtrace_at: syntax error: expect file.go:234`,
		"--=":                      "bad flag syntax: --=",
		"--logtostderr=false":      "unknown flag --logtostderr", // klog has this flag; the contract does not
		"--etcd-endpoint=http://x": "unknown flag --etcd-endpoint (use --etcd-endpoints)",
		"--use-multi-cluster-cidr": "unknown flag --use-multi-cluster-cidr (the ClusterCIDR API is gone from Kubernetes; " +
			"leave it out)",
	} {
		t.Run(args, func(t *testing.T) {
			_, _, err := parse(args)
			if err == nil {
				t.Fatal("no error")
			}
			if got := parseError(err); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestChecks(t *testing.T) {
	for args, want := range map[string]string{
		"":                                       "",
		"--subnet-lease-renew-margin=1":          "",
		"--subnet-lease-renew-margin=1439":       "",
		"--subnet-lease-renew-margin=0":          "--subnet-lease-renew-margin is 0 minutes; it must be 1 to 1439",
		"--subnet-lease-renew-margin=-1":         "--subnet-lease-renew-margin is -1 minutes; it must be 1 to 1439",
		"--subnet-lease-renew-margin=1440":       "--subnet-lease-renew-margin is 1440 minutes; it must be 1 to 1439",
		"--subnet-lease-ttl=5s":                  "",
		"--subnet-lease-ttl=4999ms":              "--subnet-lease-ttl is 4.999s; it must be 5s to 87600h0m0s",
		"--subnet-lease-ttl=-1h":                 "--subnet-lease-ttl is -1h0m0s; it must be 5s to 87600h0m0s",
		"--subnet-lease-ttl=87601h":              "--subnet-lease-ttl is 87601h0m0s; it must be 5s to 87600h0m0s",
		"--iptables-resync=1":                    "",
		"--iptables-resync=0":                    "--iptables-resync is 0 seconds; it must be 1 or more",
		"--iptables-resync=-5":                   "--iptables-resync is -5 seconds; it must be 1 or more",
		"--probe-interval=0":                     "",
		"--probe-interval=1s":                    "",
		"--probe-interval=999ms":                 "--probe-interval is 999ms; it must be 1s or more, or 0",
		"--probe-interval=-1m":                   "--probe-interval is -1m0s; it must be 1s or more, or 0",
		"--subnet-file=":                         "--subnet-file is empty; it must name a file",
		"--networks=blue,green":                  "",
		"--networks=blue,":                       "the name of a network is empty",
		"--networks=blue --subnet-dir=":          "--subnet-dir is empty; it must name a directory",
		"--networks=blue --remote=10.0.0.1:8888": "",
		"--networks=blue --listen=:1":            "--networks: a server serves all networks, so leave out --networks",
		"--networks=blue --remote=a:1 --remote-prefix=/v1/red": "--remote-prefix is /v1/red; with --networks it must end " +
			"with /_, in place of which the names come",
		"--watch-networks --remote=a:1": "",
		"--watch-networks --remote=a:1 --remote-prefix=/x": "--remote-prefix is /x; with --watch-networks it must end " +
			"with /_, in place of which the names come",
		"--networks=blue --kube-subnet-mgr": "--networks: Kubernetes has one network, so leave out --networks or " +
			"--kube-subnet-mgr",
		"--healthz-port=65536":             "--healthz-port is 65536; it must be 65535 or less",
		"--healthz-port=-1":                "",
		"--healthz-ip=here":                "", // no listener
		"--healthz-port=1 --healthz-ip=::": "",
		"--charon-vici-uri=tcp://127.0.0.1:4502": `--charon-vici-uri "tcp://127.0.0.1:4502": want unix:// and the path ` +
			"of a socket, such as unix:///var/run/charon.vici",
		"--charon-vici-uri=": `--charon-vici-uri "": want unix:// and the path of a socket, such as ` +
			"unix:///var/run/charon.vici",
		"--remote=a:1 --remote-cafile=x": "",
		"--listen=:1 --embed-etcd=/data": "",
		"--listen=:1 --remote=a:1":       "--listen and --remote exclude each other: a server takes its leases from etcd",
		"--listen=:1 --kube-subnet-mgr": "--kube-subnet-mgr excludes --listen and --remote: nodes take their subnets " +
			"from Kubernetes",
		"--remote=a:1 --embed-etcd=/data": "--embed-etcd and --remote exclude each other: give one datastore",
		"--remote-cafile=x": "--remote-certfile, --remote-keyfile and --remote-cafile need --remote or " +
			"--listen",
		"--healthz-port=1 --healthz-ip=me": `--healthz-ip is "me"; it must be an IP address`,
	} {
		t.Run(args, func(t *testing.T) {
			o, _, err := parse(strings.Fields(args)...)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := o.check(); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// The state outlives a reboot, which empties /run, and each daemon of a host
// has its own state.
func TestStatePaths(t *testing.T) {
	for args, want := range map[string][2]string{
		"": {"/var/lib/flannel/run/flannel/subnet.env.state",
			"/run/flannel/subnet.env.state"},
		"--subnet-file=/run/f/b.env":       {"/var/lib/flannel/run/f/b.env.state", "/run/f/b.env.state"},
		"--state-file=/var/lib/flannel/s":  {"/var/lib/flannel/s", ""},
		"--state-file=":                    {"", ""},
		"--subnet-file=/x/y --state-file=": {"", ""},
	} {
		o, _, err := parse(strings.Fields(args)...)
		if err != nil {
			t.Fatal(err)
		}
		if path, former := o.statePaths(); path != want[0] || former != want[1] {
			t.Errorf("%s: state files %q and %q, want %q", args, path, former, want)
		}
	}
}

// The embedded etcd listens at its socket, and at one https URL with certificates. No URL of an older setup
// opens it to a user without a certificate.
func TestEmbeddedListen(t *testing.T) {
	const (
		socket  = "unix:///data/client.sock"
		instead = "leave it out, and flanneld and flannelctl use the socket " + socket + "; for other hosts, give " +
			"https://IP:PORT with --etcd-certfile, --etcd-keyfile and --etcd-cafile"
		noLonger = "error: --embed-etcd no longer listens at an address without certificates, where any user of this " +
			"host could change the network: --etcd-endpoints is "
		atMost = "error: --embed-etcd listens at its socket and at most one address: --etcd-endpoints is "
		needs  = "error: --embed-etcd listens at https://192.0.2.1:2379 only with --etcd-certfile, --etcd-keyfile and " +
			"--etcd-cafile: each client must show a certificate of that authority"
	)
	files := daemonflags.Etcd{CertFile: "cert", KeyFile: "key", CAFile: "ca"}
	for endpoints, want := range map[string]string{
		daemonflags.EtcdEndpoints:         socket,
		socket:                            socket,
		"https://192.0.2.1:2379":          socket + " https://192.0.2.1:2379",
		"http://127.0.0.1:2379":           noLonger + "http://127.0.0.1:2379; " + instead,
		"http://root:secret@127.0.0.1:23": noLonger + "http://REDACTED@127.0.0.1:23; " + instead,
		"http://a:1,http://b:1":           noLonger + "http://a:1,http://b:1; " + instead,
		"https://127.0.0.1":               atMost + "https://127.0.0.1; " + instead,
		"https://a:1,https://b:1":         atMost + "https://a:1,https://b:1; " + instead,
		"https://root:secret@a:1":         atMost + "https://REDACTED@a:1; " + instead,
		"unix:///other":                   atMost + "unix:///other; " + instead,
		"":                                atMost + `""; ` + instead,
	} {
		etcd := files
		etcd.Endpoints = endpoints
		got := listens(etcd, socket)
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", endpoints, got, want)
		}
	}
	for _, missing := range []func(*daemonflags.Etcd){
		func(e *daemonflags.Etcd) { e.CertFile = "" },
		func(e *daemonflags.Etcd) { e.KeyFile = "" },
		func(e *daemonflags.Etcd) { e.CAFile = "" },
	} {
		etcd := files
		etcd.Endpoints = "https://192.0.2.1:2379"
		missing(&etcd)
		if got := listens(etcd, socket); got != needs {
			t.Errorf("%+v:\ngot  %s\nwant %s", etcd, got, needs)
		}
	}
}

// listens returns where an embedded etcd listens, or the error.
func listens(etcd daemonflags.Etcd, socket string) string {
	got, err := (&options{etcd: etcd}).embeddedListen(socket)
	if err != nil {
		return "error: " + err.Error()
	}
	return strings.Join(got, " ")
}

// Help shows every flag once; UPDATE=1 records a new text.
func TestHelp(t *testing.T) {
	_, fs, _ := parse()
	shown := map[string]int{}
	for _, g := range groups {
		for _, name := range g.flags {
			shown[name]++
		}
	}
	fs.VisitAll(func(f *flag.Flag) {
		if shown[f.Name] != 1 {
			t.Errorf("--%s is shown %d times, want once", f.Name, shown[f.Name])
		}
	})
	var text strings.Builder
	help(&text, "flanneld", fs)
	const golden = "testdata/help.txt"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Error(diff)
	}
}
