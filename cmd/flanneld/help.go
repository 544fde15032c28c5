package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// groups is the order of the flags in the help. A test checks that none is missing.
var groups = [...]struct {
	title string
	flags []string
}{
	{"Datastore", []string{"etcd-endpoints", "etcd-prefix", "etcd-cafile", "etcd-certfile", "etcd-keyfile",
		"etcd-username", "etcd-password", "embed-etcd", "net-config-path", "allow-extension"}},
	{"Servers and their clients", []string{"remote", "remote-prefix", "remote-cafile", "remote-certfile", "remote-keyfile",
		"listen", "listen-own-records", "listen-identity", "listen-client-connections"}},
	{"Interface to the other hosts", []string{"iface", "iface-regex", "iface-can-reach",
		"iface-from-node", "public-ip", "public-ipv6"}},
	{"Subnet", []string{"subnet-file", "state-file", "subnet-lease-ttl", "subnet-lease-renew-margin", "on-lease-lost",
		"backend-change-limit"}},
	{"Several networks", []string{"networks", "watch-networks", "subnet-dir"}},
	{"Health, log, version", []string{"healthz-ip", "healthz-port", "healthz-status", "metrics", "metrics-per-peer",
		"probe-interval", "probe-unready-after", "v", "vmodule", "log_backtrace_at", "version"}},
	{"Firewall", []string{"ip-masq", "ip-masq-fully-random-disable", "iptables-forward-rules", "iptables-resync",
		"ip-forward", "ip-blackhole-route", "next-hop-objects"}},
	{"IPsec", []string{"charon-exec-path", "charon-vici-uri"}},
	{"Kubernetes", []string{"kube-subnet-mgr", "kube-api-url", "kubeconfig-file", "kube-annotation-prefix",
		"set-node-network-unavailable"}},
	{"Installing the CNI plugin", []string{"install-cni", "cni-bin-dir", "cni-conf-dir", "cni-conf", "cni-versions"}},
}

const helpHead = `Usage: %s [OPTION]...

flanneld takes a subnet of the overlay network for this host, announces it in
the subnet file, and carries packets to and from the subnets of other hosts.

One host, to try it out:
  echo '{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}' > net-conf.json
  flanneld --embed-etcd --net-config-path=net-conf.json
With an etcd of your own:
  etcdctl put /coreos.com/network/config '{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}'
  flanneld --etcd-endpoints=http://etcd.example.com:2379

Each option can also come from the environment, as FLANNELD_ and its name:
FLANNELD_ETCD_ENDPOINTS. The command line takes precedence.
`

// help prints all flags.
func help(w io.Writer, program string, fs *flag.FlagSet) {
	fmt.Fprintf(w, helpHead, program)
	for _, g := range groups {
		fmt.Fprintf(w, "\n%s\n", g.title)
		for _, name := range g.flags {
			helpFlag(w, fs.Lookup(name))
		}
	}
	helpBackends(w)
}

func helpFlag(w io.Writer, f *flag.Flag) {
	argument, usage := flag.UnquoteUsage(f)
	_, optional := f.Value.(*optionalDir)
	switch {
	case optional:
		argument = "[=" + argument + "]"
	case argument != "":
		argument = "=" + strings.ReplaceAll(argument, " ", "-")
	}
	if f.DefValue != "" && f.DefValue != "0" && f.DefValue != "false" && f.DefValue != ":0" {
		usage += " (default " + f.DefValue + ")"
	}
	fmt.Fprintf(w, "  --%s%s\n%s\n", f.Name, argument, fold(usage, "        ", 88))
}

// fold breaks text into indented lines.
func fold(text, indent string, width int) string {
	var lines []string
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width && line != indent {
			lines, line = append(lines, line), indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}
