package check

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/node"
)

// tree makes files below a folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// native spells an address as /proc/net/route does on this machine.
func native(a, b, c, d byte) string {
	return fmt.Sprintf("%08X", binary.NativeEndian.Uint32([]byte{a, b, c, d}))
}

func TestGather(t *testing.T) {
	route := func(link, dst, via, mask string) string {
		return strings.Join([]string{link, dst, via, "0001", "0", "0", "0", mask, "0", "0", "0"}, "\t") + "\n"
	}
	none := native(0, 0, 0, 0)
	root := tree(t, map[string]string{
		"run/flannel/subnet.env":            "FLANNEL_SUBNET=10.5.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
		"proc/sys/kernel/osrelease":         "6.1.0\n",
		"lib/modules/6.1.0/modules.dep":     "kernel/net/ipv4/ipip.ko.xz: kernel/net/ipv4/tunnel4.ko.xz\n",
		"lib/modules/6.1.0/modules.builtin": "kernel/net/ipv4/esp4.ko\n",
		"proc/modules":                      "vxlan 155648 0 - Live 0x0\n",
		"proc/sys/net/ipv4/ip_forward":      "1\n",
		"proc/sys/" + bridgeV4:              "0\n",
		"proc/7/comm":                       "systemd-network\n",
		"proc/8/comm":                       "firewalld\n",
		"proc/9/comm":                       "named\n",
		"etc/firewalld/zones/trusted.xml":   "<zone>\n  <interface name=\"cni0\"/>\n</zone>\n",
		"etc/systemd/networkd.conf":         "[Network]\nManageForeignRoutes=no\n",
		"etc/cni/net.d/10-flannel.conflist": "{}",
		"etc/cni/net.d/05-cilium.conflist":  "{}",
		"sys/fs/selinux/enforce":            "1",
		"dev/net/tun":                       "",
		"proc/thread-self/net/route": "Iface\tDestination\n" + route("eth0", none, native(192, 168,
			64, 254), none) + route("tun0", native(10, 0, 0, 0), none, native(255, 0, 0, 0)),
		"proc/thread-self/net/ipv6_route": "fd000010000000000000000000000000 30 " +
			"00000000000000000000000000000000 00 00000000000000000000000000000000 00000400 1 0 1 eth0\n",
		"proc/thread-self/net/udp": "  sl  local_address\n 1: 00000000:2118 00000000:0000 07 0:0 0:0 " +
			"0 0 0 0 2 0\n 2: 00000000:0035 00000000:0000 07 0:0 0:0 0 0 0 77 2 0\n",
		"usr/lib/systemd/network/99-a.link":   "[Link]\n",
		"etc/NetworkManager/conf.d/ours.conf": "[keyfile]\n",
	})
	f := Gather(t.Context(), Sources{
		Root: root, SubnetFile: "/run/flannel/subnet.env", CNIConf: "/etc/cni/net.d",
		Folders: []string{"/run/flannel", "/var/lib/flannel"},
		Config:  []byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`),
		Daemons: func() ([]int, error) { return []int{7}, nil },
		Time:    func(context.Context) (time.Time, error) { return time.Now().Add(-time.Hour), nil },
	})
	got := fmt.Sprintf("%+v %v %v %v %v %v %v %v %s %v %v", f.SubnetFile, f.Modules, f.TUN, f.Sysctls, f.Routes, f.UDP,
		f.Processes, f.Trusted, f.SELinux, f.CNI, len(f.Settings))
	const want = "{Path:/run/flannel/subnet.env Exists:true Subnet:10.5.1.0-24 MTU:1450 Masq:true} " +
		"map[esp4:loaded ipip:loadable vxlan:loaded wireguard:missing xfrm_user:missing] true " +
		"map[net/bridge/bridge-nf-call-iptables:0 net/ipv4/ip_forward:1] " +
		"[{10.0.0.0/8 tun0 false} {fd00:10::/48 eth0 false}] map[53: 8472:] " +
		"map[firewalld:true systemd-networkd:true] [cni0] enforcing [05-cilium.conflist 10-flannel.conflist] 3"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if f.Network == nil || !f.Clock || f.Ahead.Round(time.Minute) != time.Hour || len(f.Disks) != 2 ||
		f.Disks[0].Free == 0 {
		t.Errorf("network %v, clock %t %s, disks %v", f.Network, f.Clock, f.Ahead, f.Disks)
	}
	if len(f.Unknown) != 1 || !strings.Contains(f.Unknown[0], "run as root") {
		t.Errorf("unknown: %q", f.Unknown)
	}
}

// TestGatherNothing reads a host without any of the files, which is no error.
func TestGatherNothing(t *testing.T) {
	f := Gather(t.Context(), Sources{
		Root: t.TempDir(), SubnetFile: "/run/x", CNIConf: "/etc/x", Config: []byte(`{`),
		Daemons: func() ([]int, error) { return nil, os.ErrPermission },
	})
	if len(f.Unknown) != 2 || f.Network != nil || f.ConfigError == "" || f.Modules["vxlan"] != Unsure ||
		f.SubnetFile.Exists {
		t.Errorf("%+v", f)
	}
	for _, found := range f.Findings() {
		if found.Topic == "daemon" {
			t.Errorf("of processes that could not be read: %+v", found)
		}
	}
}

// TestGatherFromTheDaemon asks a daemon. One that runs and says nothing is worth a note.
func TestGatherFromTheDaemon(t *testing.T) {
	for _, c := range []struct {
		runs, answers bool
		notes         int
	}{{true, true, 0}, {true, false, 1}, {false, false, 0}, {false, true, 0}} {
		f := Gather(t.Context(), Sources{
			Root: t.TempDir(), SubnetFile: "/run/x", CNIConf: "/etc/x",
			Daemons: func() ([]int, error) { return map[bool][]int{true: {7}}[c.runs], nil },
			Daemon: func(context.Context) (node.Status, []node.Peer, error) {
				if !c.answers {
					return node.Status{}, nil, errors.New("the node is busy")
				}
				return node.Status{MTU: 1450}, []node.Peer{{}}, nil
			},
		})
		told := strings.Count(strings.Join(f.Unknown, "\n"),
			"what flanneld knows of its peers could not be read: the node is busy")
		if told != c.notes || (f.Status != nil) != c.answers || (len(f.Peers) == 1) != c.answers {
			t.Errorf("%+v: %q, %+v", c, f.Unknown, f.Status)
		}
	}
}

// TestGatherFromAStuckDaemon finds a daemon that takes questions and answers none.
func TestGatherFromAStuckDaemon(t *testing.T) {
	f := Gather(t.Context(), Sources{
		Root: t.TempDir(), SubnetFile: "/run/x", CNIConf: "/etc/x",
		Daemons: func() ([]int, error) { return []int{7}, nil },
		Daemon: func(context.Context) (node.Status, []node.Peer, error) {
			return node.Status{}, nil, fmt.Errorf("no answer: %w", context.DeadlineExceeded)
		},
	})
	if f.Hangs != "no answer: context deadline exceeded" || strings.Contains(strings.Join(f.Unknown, "\n"), "no answer") {
		t.Errorf("hangs: %q; unknown: %q", f.Hangs, f.Unknown)
	}
}

func FuzzTables(f *testing.F) {
	f.Add("eth0\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0")
	f.Add("fd000010000000000000000000000000 30 0 00 00 0 1 0 1 eth0")
	f.Fuzz(func(t *testing.T, line string) {
		for _, parse := range []func([]string) (Route, bool){parseRoute4, parseRoute6} {
			if r, ok := parse(strings.Fields(line)); ok && !r.Dst.IsValid() {
				t.Errorf("%q: %+v", line, r)
			}
		}
	})
}

// TestGatherPods reads the CNI configuration that the runtime takes, and the addresses that host-local has given.
func TestGatherPods(t *testing.T) {
	const subnet = "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.1.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"
	const first = `{"plugins":[{"type":"flannel","subnetFile":"/run/flannel/gone.env"}]}`
	root := tree(t, map[string]string{
		"run/flannel/subnet.env":                       subnet,
		"etc/cni/net.d/00-multus.conf.bak":             "old",
		"etc/cni/net.d/05-first.conflist":              first,
		"var/lib/cni/networks/cbr0/10.5.1.7":           "dead\r\neth0",
		"var/lib/cni/networks/cbr0/10.5.1.8":           "dead\r\neth0",
		"var/lib/cni/networks/cbr0/10.9.1.8":           "of another network",
		"var/lib/cni/networks/cbr0/last_reserved_ip.0": "10.5.1.8",
		"var/lib/cni/networks/other/10.9.1.8":          "of another network",
	})
	f := Gather(t.Context(), Sources{Root: root, SubnetFile: "/run/flannel/subnet.env", CNIConf: "/etc/cni/net.d",
		Daemons: func() ([]int, error) { return nil, nil }})
	if d := cmp.Diff([]Pool{{"/var/lib/cni/networks/cbr0", 2}}, f.Pools); d != "" || f.CNIFirst != first {
		t.Errorf("first %q, pools (-want +got):\n%s", f.CNIFirst, d)
	}
	if f.CNISubnet != "/run/flannel/gone.env" {
		t.Errorf("the subnet file that does not exist: %q", f.CNISubnet)
	}
}
