package check

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/uplink"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/output/outputtest"
)

// healthy returns the facts of a host on which all is well: flanneld runs with vxlan.
func healthy(t *testing.T) *Facts {
	t.Helper()
	f := &Facts{
		Daemons: []int{7},
		SubnetFile: SubnetFile{Path: "/run/flannel/subnet.env", Exists: true, MTU: 1450, Masq: true,
			Subnet: lease.Key{V4: netip.MustParsePrefix("10.5.1.0/24")}},
		Modules: map[string]Module{"vxlan": Loaded, "wireguard": Loaded, "ipip": Loaded, "xfrm_user": Loaded,
			"esp4": Loadable},
		TUN:         true,
		Options:     map[string]string{"BRIDGE": "m", "VETH": "m", "NFT_MASQ": "m", "BRIDGE_NETFILTER": "m"},
		OptionsFrom: "/proc/config.gz",
		Sysctls: map[string]string{
			"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1", bridgeV4: "1", bridgeV6: "1",
		},
		Chains:  dataplane.NewState(),
		Disks:   []Disk{{Path: "/run/flannel", Free: 1 << 30, Inodes: 1 << 20}},
		SELinux: "permissive", Clock: true,
	}
	f.configure(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`)
	f.link("eth0", "192.168.64.1/24")
	f.link("cni0", "10.5.1.1/24")
	f.link("flannel.1", "10.5.1.0/32")
	f.Host.Routes = []driver.Route{{Dst: netip.MustParsePrefix("0.0.0.0/0"), Hops: []driver.Hop{{Link: "eth0"}}}}
	f.Routes = []Route{{Dst: netip.MustParsePrefix("10.5.2.0/24"), Link: "flannel.1", Via: true}}
	f.Chains.AddChain(dataplane.Chain{
		ChainKey: dataplane.ChainKey{Flavour: dataplane.IPTables, Family: cidr.V4, Hook: dataplane.Postrouting},
		Jump:     dataplane.Placed,
	})
	for family := range f.Firewall.Tools {
		f.Firewall.Tools[family].IPTables.Usable = true
		f.Firewall.Tools[family].BridgeFilter = true
	}
	return f
}

func (f *Facts) configure(t *testing.T, text string) {
	t.Helper()
	network, _, err := node.CheckConfig([]byte(text), false)
	if err != nil {
		t.Fatal(err)
	}
	f.Network = &network
}

func (f *Facts) link(name, prefix string) {
	f.Host.Links = append(f.Host.Links, driver.Link{
		Name: name, Index: len(f.Host.Links) + 2, MTU: 1500, Up: true,
		Addrs: []driver.LinkAddr{{Prefix: netip.MustParsePrefix(prefix), Permanent: true}},
	})
}

// peerAt adds a peer with a public address.
func (f *Facts) peerAt(address string) {
	f.Peers = append(f.Peers, node.Peer{Subnet: lease.Key{V4: netip.MustParsePrefix("10.5.2.0/24")},
		PublicIP: netip.MustParseAddr(address)})
}

// told returns the findings that differ between two reports, one a line.
func told(findings []Finding, without []Finding) string {
	var b strings.Builder
	for _, f := range findings {
		known := false
		for _, w := range without {
			known = known || w == f
		}
		if !known {
			b.WriteString(string(f.Level) + " " + f.Topic + ": " + f.Text + " # " + f.Remedy + "\n")
		}
	}
	return b.String()
}

func TestHealthy(t *testing.T) {
	f := healthy(t)
	const want = `ok config: backend vxlan
ok daemon: flanneld runs as process 7; the subnet is 10.5.1.0-24, the MTU 1450
ok kernel: module vxlan, which the backend vxlan needs: loaded
ok kernel: it was built with bridges, veth, masquerade and br_netfilter, says /proc/config.gz
ok forwarding: IPv4 packets are forwarded
ok br_netfilter: IPv4 packets between pods of this host pass through iptables
ok interface: flannel takes eth0 with 192.168.64.1
ok overlap: no address or route of this host lies in flannel's network
ok bridge: cni0 has the address of this host's subnet
ok port: UDP port 8472 is free
ok firewall: no foreign rule drops the packets that flannel accepts
ok masquerade: flannel's masquerade rules are in place
ok CNI: no other CNI program left anything
ok disk: /run/flannel has room
ok SELinux: it is permissive
ok clock: it agrees with the datastore's
`
	if d := cmp.Diff(want, strings.ReplaceAll(told(f.Findings(), nil), " # \n", "\n")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// findingCases are changes of a healthy host, each with a part of a finding that only
// the changed host has.
var findingCases = []struct {
	name   string
	change func(*testing.T, *Facts)
	want   string
}{
	{"no config", func(_ *testing.T, f *Facts) { f.Network = nil }, "warning config: no network config is known"},
	{"a bad config", func(_ *testing.T, f *Facts) { f.ConfigError = "bad" },
		"failure config: bad # flannelctl config validate"},
	{"no file", func(_ *testing.T, f *Facts) { f.SubnetFile = SubnetFile{Path: "/run/x"} },
		"failure daemon: flanneld runs as process 7 and has not written /run/x, so no pod can start"},
	{"no daemon", func(_ *testing.T, f *Facts) { f.Daemons = nil }, "warning daemon: /run/flannel/subnet.env exists"},
	{"nothing installed", func(_ *testing.T, f *Facts) { f.Daemons, f.SubnetFile = nil, SubnetFile{} },
		"ok daemon: flanneld does not run, and has left no subnet file"},
	{"stuck daemon", func(_ *testing.T, f *Facts) { f.Hangs = "it does not answer" },
		"failure daemon: flanneld runs as process 7 and follows no changes: it does not answer"},
	{"two daemons", func(_ *testing.T, f *Facts) { f.Daemons = []int{7, 8} }, "warning daemon: 2 daemons run"},
	{"no module", func(_ *testing.T, f *Facts) { f.Modules["vxlan"] = Missing },
		"failure kernel: module vxlan, which the backend vxlan needs: missing"},
	{"a module to load", func(_ *testing.T, f *Facts) { f.Modules["vxlan"] = Loadable },
		"ok kernel: module vxlan, which the backend vxlan needs: loadable"},
	{"no list of modules", func(_ *testing.T, f *Facts) { f.Modules["vxlan"] = Unsure },
		"warning kernel: module vxlan, which the backend vxlan needs: it is not loaded"},
	{"no WireGuard", func(t *testing.T, f *Facts) {
		f.configure(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"wireguard"}}`)
		f.Modules["wireguard"] = Missing
	}, "warning kernel: module wireguard, which the backend wireguard needs: missing; flanneld then carries"},
	{"TUN", func(t *testing.T, f *Facts) { f.configure(t, `{"Network":"10.5.0.0/16"}`) },
		"ok kernel: /dev/net/tun exists"},
	{"no TUN", func(t *testing.T, f *Facts) {
		f.configure(t, `{"Network":"10.5.0.0/16"}`)
		f.TUN = false
	}, "failure kernel: /dev/net/tun is missing, which the backend udp needs # modprobe tun"},
	{"no forwarding", func(_ *testing.T, f *Facts) { f.Sysctls["net/ipv4/ip_forward"] = "0" },
		"failure forwarding: the host forwards no IPv4 packets, so pods reach nothing outside it " +
			"# echo net.ipv4.ip_forward=1 >> /etc/sysctl.d/90-flannel.conf && sysctl -w net.ipv4.ip_forward=1"},
	{"no br_netfilter", func(_ *testing.T, f *Facts) { delete(f.Sysctls, bridgeV4) },
		"warning br_netfilter: IPv4 packets between pods of this host bypass iptables, " +
			"so a service of kube-proxy, such as DNS"},
	{"br_netfilter off", func(_ *testing.T, f *Facts) { f.Sysctls[bridgeV4] = "0" },
		"warning br_netfilter: net.bridge.bridge-nf-call-iptables is 0"},
	{"IPv6", func(t *testing.T, f *Facts) {
		f.configure(t, `{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"vxlan"}}`)
		f.Sysctls["net/ipv6/conf/all/forwarding"] = "0"
	}, "failure forwarding: the host forwards no IPv6 packets"},
	{"no default route", func(_ *testing.T, f *Facts) { f.Host.Routes = nil },
		"failure interface: no usable interface: default route: there is no IPv4 default route " +
			"# flanneld --iface=NAME"},
	{"two interfaces", func(_ *testing.T, f *Facts) { f.link("eth1", "172.16.0.1/24") },
		"warning interface: flannel takes eth0 with 192.168.64.1, since it has the default route; " +
			"if the other hosts reach this one by eth1, --iface of flanneld has to name it. The addresses of their leases " +
			"say in whose subnet they are # flannelctl leases list"},
	{"two interfaces, and peers on the one in use", func(_ *testing.T, f *Facts) {
		f.link("eth1", "172.16.0.1/24")
		f.peerAt("192.168.64.2")
	}, "ok interface: flannel takes eth0 with 192.168.64.1"},
	{"two interfaces, and peers on the other", func(_ *testing.T, f *Facts) {
		f.link("eth1", "172.16.0.1/24")
		f.peerAt("172.16.0.2")
	}, "failure interface: flannel takes eth0 with 192.168.64.1, and the addresses of the other nodes are in the subnet " +
		"of eth1 # flanneld --iface=eth1"},
	{"--iface names the wrong network", func(_ *testing.T, f *Facts) {
		f.link("eth1", "172.16.0.1/24")
		f.peerAt("192.168.64.2")
		f.Status = &node.Status{Uplink: uplink.Uplink{Link: "eth1", IP: netip.MustParseAddr("172.16.0.1")}}
	}, "failure interface: flannel takes eth1 with 172.16.0.1, as its flags say; without them it would take eth0, which " +
		"has the default route, and the addresses of the other nodes are in the subnet of eth0 # flanneld --iface=eth0"},
	{"--iface names the right one", func(_ *testing.T, f *Facts) {
		f.link("eth1", "172.16.0.1/24")
		f.Status = &node.Status{Uplink: uplink.Uplink{Link: "eth1", IP: netip.MustParseAddr("172.16.0.1")}}
	}, "ok interface: flannel takes eth1 with 172.16.0.1, as its flags say"},
	{"an address in the network", func(_ *testing.T, f *Facts) { f.link("eth1", "10.5.9.1/24") },
		"failure overlap: flannel's network contains address 10.5.9.1/24 of eth1"},
	{"a route over the network", func(_ *testing.T, f *Facts) {
		f.Routes = append(f.Routes, Route{Dst: netip.MustParsePrefix("10.0.0.0/8"), Link: "tun0", Via: true})
	}, "ok overlap: no address or route of this host lies in flannel's network; flannel's routes come before 10.0.0.0/8 " +
		"on tun0, so hosts behind that with addresses of flannel's network are not reached"},
	{"a route to a part of the network", func(_ *testing.T, f *Facts) {
		f.Routes = append(f.Routes, Route{Dst: netip.MustParsePrefix("10.5.64.0/18"), Link: "tun0"})
	}, "failure overlap: flannel's network contains route 10.5.64.0/18 on tun0"},
	{"a route to one pod", func(_ *testing.T, f *Facts) {
		f.Routes = append(f.Routes, Route{Dst: netip.MustParsePrefix("10.5.2.7/32"), Link: "*"})
	}, "warning overlap: another program's route 10.5.2.7/32 takes packets to pods from flannel's routes: find out " +
		"which program made it # ip route show table all"},
	{"another flanneld's route on the device", func(_ *testing.T, f *Facts) {
		f.Routes = append(f.Routes, Route{Dst: netip.MustParsePrefix("10.6.2.0/24"), Link: "flannel.1", Via: true})
	}, "warning overlap: flannel.1 has the route 10.6.2.0/24 into another network: another flanneld"},
	{"a foreign route past WireGuard", func(t *testing.T, f *Facts) {
		f.configure(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"wireguard"}}`)
		f.Routes = append(f.Routes, Route{Dst: netip.MustParsePrefix("10.5.2.0/24"), Link: "eth0", Via: true})
	}, "warning bypass: another program's route 10.5.2.0/24 on eth0 is in flannel's network, and may lead packets past " +
		"WireGuard unencrypted; flannelctl status says whether flanneld prevents it # ip route del 10.5.2.0/24 dev eth0"},
	{"a bridge of another subnet", func(_ *testing.T, f *Facts) {
		f.Host.Links[1].Addrs[0].Prefix = netip.MustParsePrefix("10.5.7.1/24")
	}, "failure bridge: cni0 has the address 10.5.7.1/24, which is not in this host's subnet 10.5.1.0/24"},
	{"the bridge of a second flanneld", func(_ *testing.T, f *Facts) {
		f.Daemons = []int{7, 8}
		f.Host.Links[1].Addrs[0].Prefix = netip.MustParsePrefix("10.5.7.1/24")
	}, "warning bridge: cni0 has the address 10.5.7.1/24, which is not in this host's subnet 10.5.1.0/24: it is the " +
		"bridge of another flanneld or program, and the CNI configuration of this network has to name another one " +
		"# ip addr show dev cni0"},
	{"a subnet file that does not exist", func(_ *testing.T, f *Facts) {
		f.CNI, f.CNISubnet = []string{"10-flannel.conflist"}, "/run/flannel/gone.env"
	}, "failure CNI: 10-flannel.conflist, which the runtime takes, names the subnet file /run/flannel/gone.env, and no " +
		"such file exists, so no pod can start: flanneld writes /run/flannel/subnet.env (--subnet-file) " +
		"# cat /etc/cni/net.d/10-flannel.conflist"},
	{"a bridge with pods and without an address", func(_ *testing.T, f *Facts) {
		f.Host.Links[1].Addrs = nil
		f.Host.Links = append(f.Host.Links, driver.Link{Name: "veth1", Master: "cni0"})
	}, "failure bridge: cni0 has no address of this host's subnet 10.5.1.0/24, so the pods on it have no gateway " +
		"# ip addr add 10.5.1.1/24 dev cni0"},
	{"pods behind ports that are down", func(_ *testing.T, f *Facts) {
		f.Host.Links = append(f.Host.Links, driver.Link{Name: "veth1", Master: "cni0"},
			driver.Link{Name: "veth2", Master: "cni0", Up: true}, driver.Link{Name: "veth3", Master: "cni0"})
	}, "failure bridge: the ports veth1, veth3 of cni0 are down, so the pods behind them have no network " +
		"# ip link set veth1 up; ip link set veth3 up"},
	{"a bridge of another network", func(_ *testing.T, f *Facts) {
		f.Host.Links[1].Addrs[0].Prefix = netip.MustParsePrefix("10.6.7.1/24")
	}, "warning bridge: cni0 has the address 10.6.7.1/24"},
	{"a bridge of another subnet with pods", func(_ *testing.T, f *Facts) {
		f.Host.Links[1].Addrs[0].Prefix = netip.MustParsePrefix("10.5.7.1/24")
		f.Host.Links = append(f.Host.Links, driver.Link{Name: "veth1", Master: "cni0"})
	}, "while pods are on it; those that this lists end with their pods, and the next new pod repairs the bridge " +
		"# bridge link show"},
	{"a port in use", func(_ *testing.T, f *Facts) { f.UDP = map[uint16]string{8472: "named"} },
		"failure port: UDP port 8472, which the backend vxlan needs, is in use by the program named"},
	{"a port of the kernel's", func(_ *testing.T, f *Facts) {
		f.UDP = map[uint16]string{8472: ""}
		f.Host.Links = f.Host.Links[:1]
	}, "failure port: UDP port 8472, which the backend vxlan needs, is in use by " +
		"a program that this user may not see, or a tunnel device of another program"},
	{"our port", func(_ *testing.T, f *Facts) { f.UDP = map[uint16]string{8472: ""} },
		"ok port: UDP port 8472 is in use by flannel"},
	{"the port of a daemon whose file has another name", func(_ *testing.T, f *Facts) {
		f.UDP = map[uint16]string{8472: "flanneld-amd64"}
	}, "ok port: UDP port 8472 is in use by flannel"},
	{"the ports of WireGuard", func(t *testing.T, f *Facts) {
		f.configure(t, `{"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48",`+
			`"Backend":{"Type":"wireguard","ListenPort":700}}`)
		f.UDP = map[uint16]string{700: "named", 51821: "flanneld"}
	}, "failure port: UDP port 700, which the backend wireguard needs, is in use by the program named"},
	{"a blocking rule", func(_ *testing.T, f *Facts) {
		f.Firewall.Blocks = []driver.ForwardBlock{{Family: cidr.V4, By: "chain inet strict forward"}}
	}, "failure firewall: IPv4 packets to be forwarded are dropped by chain inet strict forward, " +
		"which no chain of iptables can overrule; accept packets from and to 10.5.0.0/16 there " +
		"# iptables -I FORWARD -s 10.5.0.0/16 -j ACCEPT"},
	{"a blocking policy", func(_ *testing.T, f *Facts) {
		f.Firewall.Blocks = []driver.ForwardBlock{{Family: cidr.V4,
			By: "policy DROP of chain forward in table inet strict"}}
	}, "# nft insert rule inet strict forward ip saddr 10.5.0.0/16 accept; " +
		"nft insert rule inet strict forward ip daddr 10.5.0.0/16 accept"},
	{"a doubtful rule", func(_ *testing.T, f *Facts) {
		f.Firewall.Blocks = []driver.ForwardBlock{{Family: cidr.V4, By: "chain inet strict forward", Doubtful: true}}
	}, "warning firewall: IPv4 packets to be forwarded are dropped by chain inet strict forward unless"},
	{"no masquerade rules", func(_ *testing.T, f *Facts) { f.Chains = dataplane.NewState() },
		"failure masquerade: flannel's masquerade rules for IPv4 are missing"},
	{"no --ip-masq", func(_ *testing.T, f *Facts) { f.SubnetFile.Masq = false },
		"warning masquerade: flanneld runs without --ip-masq, and no CNI configuration here says"},
	{"the plugin masquerades", func(_ *testing.T, f *Facts) {
		f.SubnetFile.Masq = false
		f.CNIFirst = `{"plugins":[{"type":"flannel","delegate":{"isDefaultGateway":true}},{"type":"portmap"}]}`
	}, "ok masquerade: flanneld runs without --ip-masq, and the CNI configuration has the plugins masquerade instead"},
	{"a plugin that cannot masquerade", func(_ *testing.T, f *Facts) {
		f.SubnetFile.Masq = false
		f.CNIFirst = `{"plugins":[{"type":"flannel","delegate":{"type":"macvlan"}}]}`
	}, "warning masquerade: flanneld runs without --ip-masq, and no CNI configuration here says"},
	{"nothing masquerades", func(_ *testing.T, f *Facts) {
		f.SubnetFile.Masq = false
		f.CNIFirst = `{"type":"flannel","delegate":{"ipMasq":false}}`
	}, `warning masquerade: flanneld runs without --ip-masq, and the CNI configuration has "ipMasq": false`},
	{"firewalld", func(_ *testing.T, f *Facts) {
		f.Processes = map[string]bool{"firewalld": true}
		f.Trusted = []string{"cni0"}
	}, "warning firewalld: firewalld runs, and flannel.1 is not in its zone trusted: it may drop packets of pods # " +
		"firewall-cmd --permanent --zone=trusted --add-interface=flannel.1 && firewall-cmd --reload"},
	{"firewalld beside a previous device", func(_ *testing.T, f *Facts) {
		f.Processes = map[string]bool{"firewalld": true}
		f.Trusted = []string{"cni0", "flannel.1"}
		f.link("fl.1.8472", "10.5.1.0/32")
	}, "warning firewalld: firewalld runs, and fl.1.8472 is not in its zone trusted"},
	{"firewalld that trusts", func(_ *testing.T, f *Facts) {
		f.Processes = map[string]bool{"firewalld": true}
		f.Trusted = []string{"cni0", "flannel.1"}
	}, "ok firewalld: the interfaces of pods are in its zone trusted"},
	{"NetworkManager", func(_ *testing.T, f *Facts) { f.Processes = map[string]bool{"NetworkManager": true} },
		"warning NetworkManager: it may manage flannel's devices"},
	{"NetworkManager that leaves", func(_ *testing.T, f *Facts) {
		f.Processes = map[string]bool{"NetworkManager": true}
		text := "[keyfile]\nunmanaged-devices=interface-name:flannel*\n"
		f.Settings = map[string]string{"/etc/NetworkManager/conf.d/a.conf": text}
	}, "ok NetworkManager: it leaves flannel's devices alone"},
	{"networkd", func(_ *testing.T, f *Facts) { f.Processes = map[string]bool{"systemd-networkd": true} },
		"warning networkd: systemd-networkd removes foreign routes"},
	{"networkd that leaves", func(_ *testing.T, f *Facts) {
		f.Processes = map[string]bool{"systemd-networkd": true}
		f.Settings = map[string]string{"/etc/systemd/networkd.conf": "[Network]\nManageForeignRoutes=no\n"}
	}, "ok networkd: it leaves foreign routes alone"},
	{"a policy of MACs", func(_ *testing.T, f *Facts) {
		f.Settings = map[string]string{"/lib/systemd/network/99-default.link": "[Link]\nMACAddressPolicy=persistent\n"}
	}, "warning udev: systemd's 99-default.link gives new devices another MAC"},
	{"a policy with an exception", func(_ *testing.T, f *Facts) {
		f.Settings = map[string]string{
			"/lib/systemd/network/99-default.link": "[Link]\nMACAddressPolicy=persistent\n",
			"/etc/systemd/network/50-flannel.link": "[Match]\nOriginalName=flannel*\n",
		}
	}, "ok udev: a .link file leaves the MACs of flannel's devices alone"},
	{"another CNI program's file", func(_ *testing.T, f *Facts) {
		f.CNI = []string{"05-cilium.conflist",
			"10-flannel.conflist"}
	},
		"failure CNI: the runtime takes the first file in /etc/cni/net.d, which is 05-cilium.conflist, and that one is " +
			"not flannel's and does not name it"},
	{"Multus in front of flannel", func(_ *testing.T, f *Facts) {
		f.CNI = []string{"00-multus.conf", "10-flannel.conflist"}
		f.CNIFirst = `{"type":"multus","delegates":[{"plugins":[{"type":"flannel"}]}]}`
	}, "ok CNI: no other CNI program left anything"},
	{"Multus that names a file", func(_ *testing.T, f *Facts) {
		f.CNI = []string{"00-multus.conf"}
		f.CNIFirst = `{"type":"multus-shim","clusterNetwork":"/host/etc/cni/net.d/10-flannel.conflist"}`
	}, "ok CNI: no other CNI program left anything"},
	{"a backup beside flannel's file", func(_ *testing.T, f *Facts) {
		f.CNI = []string{"05-old.conflist.bak", "10-flannel.conflist"}
	}, "ok CNI: no other CNI program left anything"},
	{"a full pool", func(_ *testing.T, f *Facts) { f.Pools = []Pool{{"/var/lib/cni/networks/cbr0", 253}} },
		"failure addresses: 253 of the 253 addresses of 10.5.1.0/24 are taken by files of host-local in " +
			"/var/lib/cni/networks/cbr0, so no pod can start"},
	{"a pool of files that are left", func(_ *testing.T, f *Facts) { f.Pools = []Pool{{"/x", 240}} },
		"warning addresses: 240 of the 253 addresses"},
	{"an address inside the network", func(_ *testing.T, f *Facts) { f.peerAt("10.5.9.9") },
		"warning peers: the record of 10.5.2.0-24 has the address 10.5.9.9, which lies inside flannel's own network"},
	{"another CNI program's device", func(_ *testing.T, f *Facts) { f.link("cali123", "169.254.1.1/32") },
		"warning CNI: Calico left the device cali123"},
	{"a full disk", func(_ *testing.T, f *Facts) { f.Disks[0].Free = 0 }, "failure disk: /run/flannel is full"},
	{"no inodes", func(_ *testing.T, f *Facts) { f.Disks[0].Inodes = 0 }, "failure disk: /run/flannel is full"},
	{"a nearly full disk", func(_ *testing.T, f *Facts) { f.Disks[0].Free = 10 << 20 },
		"warning disk: /run/flannel is nearly full"},
	{"a read-only disk", func(_ *testing.T, f *Facts) { f.Disks[0].ReadOnly = true },
		"failure disk: /run/flannel is mounted read-only"},
	{"SELinux", func(_ *testing.T, f *Facts) { f.SELinux = "enforcing" },
		"warning SELinux: SELinux enforces its policy"},
	{"a clock that is off", func(_ *testing.T, f *Facts) { f.Ahead = -time.Minute },
		"warning clock: this host's clock differs by 1m0s from the datastore's, and one of the two is wrong: certificates " +
			"may not be valid yet or any more # chronyc tracking"},
	{"a clock that is far off", func(_ *testing.T, f *Facts) { f.Ahead = time.Hour },
		"failure clock: this host's clock differs by 1h0m0s"},
	{"an unknown fact", func(_ *testing.T, f *Facts) { f.Unknown = []string{"rules"} }, "warning unknown: rules"},
}

// TestFindings changes one fact of a healthy host each time.
func TestFindings(t *testing.T) {
	before := healthy(t).Findings()
	for _, c := range findingCases {
		t.Run(c.name, func(t *testing.T) {
			f := healthy(t)
			c.change(t, f)
			if got := told(f.Findings(), before); !strings.Contains(got, c.want) &&
				!strings.Contains(told(f.Findings(), nil), c.want) {
				t.Errorf("told\n%swant\n%s", got, c.want)
			}
			for _, finding := range f.Findings() {
				if finding.Level == Failure && finding.Remedy == "" {
					t.Errorf("no remedy for %+v", finding)
				}
			}
		})
	}
}

func TestReport(t *testing.T) {
	r := &Report{Findings: []Finding{
		{Level: OK, Topic: "disk", Text: "it has room"},
		{Level: Failure, Topic: "kernel", Text: "no vxlan", Remedy: "modprobe vxlan"},
	}}
	const want = `ok       disk    it has room
failure  kernel  no vxlan
                 # modprobe vxlan
1 ok, 0 warnings, 1 failure
`
	if d := cmp.Diff(want, outputtest.Print(t, output.Printer{}, r)); d != "" || !r.Trouble() || (&Report{}).Trouble() {
		t.Errorf("trouble %t (-want +got):\n%s", r.Trouble(), d)
	}
}
