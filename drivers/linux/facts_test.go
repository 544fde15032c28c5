package linux

import (
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/drivertest"
)

// TestFactsOfDefaultRoutes gives a host default routes in every form in which a program may write them. The facts
// name the links and gateways through which packets leave, and follow a change of the next-hop object.
func TestFactsOfDefaultRoutes(t *testing.T) {
	for _, c := range []struct {
		name  string
		lines []string // commands of ip, or settings
		want  string
	}{
		{"a gateway of its own", []string{"route add default via 192.168.64.1 mtu 1400"},
			"route 0.0.0.0/0 metric 0 dev eth0 via 192.168.64.1 mtu 1400"},
		{"several hops", []string{"route add default nexthop via 192.168.64.1 nexthop via 172.20.0.1"},
			"route 0.0.0.0/0 metric 0 dev eth0 via 192.168.64.1 dev eth1 via 172.20.0.1"},
		{"an IPv6 gateway", []string{"-4 route add default via inet6 fd00:a::1 dev eth0"},
			"route 0.0.0.0/0 metric 0 dev eth0 via fd00:a::1"},
		{"an object", []string{"nexthop add id 10 via 192.168.64.1 dev eth0", "route add default nhid 10"},
			"route 0.0.0.0/0 metric 0 dev eth0 via 192.168.64.1"},
		{"an object alone", []string{"net.ipv4.nexthop_compat_mode=0", "nexthop add id 10 via 192.168.64.1 dev eth0",
			"route add default nhid 10"},
			"route 0.0.0.0/0 metric 0 dev eth0 via 192.168.64.1"},
		{"a changed object alone", []string{"net.ipv4.nexthop_compat_mode=0", "nexthop add id 10 via 192.168.64.1 dev eth0",
			"route add default nhid 10", "look", "nexthop replace id 10 via 172.20.0.1 dev eth1"},
			"route 0.0.0.0/0 metric 0 dev eth1 via 172.20.0.1"},
		{"a group alone", []string{"net.ipv4.nexthop_compat_mode=0", "nexthop add id 10 via 192.168.64.1 dev eth0",
			"nexthop add id 11 via 172.20.0.1 dev eth1", "nexthop add id 12 group 10/11", "route add default nhid 12"},
			"route 0.0.0.0/0 metric 0 dev eth0 via 192.168.64.1 dev eth1 via 172.20.0.1"},
		{"a changed member of a group alone", []string{"net.ipv4.nexthop_compat_mode=0",
			"nexthop add id 10 via 192.168.64.1 dev eth0", "nexthop add id 12 group 10", "route add default nhid 12",
			"look", "nexthop replace id 10 via 172.20.0.1 dev eth1"},
			"route 0.0.0.0/0 metric 0 dev eth1 via 172.20.0.1"},
		{"an object of IPv6 alone", []string{"net.ipv4.nexthop_compat_mode=0", "nexthop add id 10 via fd00:a::1 dev eth0",
			"-6 route add default nhid 10"},
			"route ::/0 metric 1024 dev eth0 via fd00:a::1"},
		{"an IPv6 gateway of an object alone", []string{"net.ipv4.nexthop_compat_mode=0",
			"nexthop add id 10 via fd00:a::1 dev eth0", "route add default nhid 10"},
			"route 0.0.0.0/0 metric 0 dev eth0 via fd00:a::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.do(t, "add link eth0 type ethernet mtu 1500 mac 02:00:00:00:00:01 up",
				"add link eth1 type ethernet mtu 1500 mac 02:00:00:00:00:02 up",
				"add addr 192.168.64.3/24 dev eth0", "add addr fd00:a::3/64 dev eth0", "add addr 172.20.0.3/24 dev eth1")
			defaults := func() string {
				seen, err := w.d.Look(t.Context(), dataplane.Extent{})
				if err != nil {
					t.Fatal(err)
				}
				lines := strings.Split(new(drivertest.Printer).Facts(seen.Facts.(driver.HostFacts)), "\n")
				var routes []string
				for _, line := range lines {
					if strings.HasPrefix(line, "route ") {
						routes = append(routes, line)
					}
				}
				return strings.Join(routes, "\n")
			}
			for _, line := range c.lines {
				switch {
				case line == "look":
					defaults()
				case strings.Contains(line, "="):
					w.sysctl(t, line)
				default:
					w.ip(t, line)
				}
			}
			if got := defaults(); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestFactsOfPorts makes a bridge with a port, and an address whose test for duplicates cannot end.
func TestFactsOfPorts(t *testing.T) {
	w := newWorld(t)
	w.do(t, "add link eth0 type ethernet mtu 1500 mac 02:00:00:00:00:01 up",
		"add link eth1 type ethernet mtu 1500 mac 02:00:00:00:00:02 up")
	w.ip(t, "link add br0 type bridge")
	w.ip(t, "link set eth1 master br0")
	w.sysctl(t, "net.ipv6.conf.eth0.dad_transmits=1000", "net.ipv6.conf.eth0.accept_dad=1")
	w.ip(t, "address add fd00:a::7/64 dev eth0")
	seen, err := w.d.Look(t.Context(), dataplane.Extent{})
	if err != nil {
		t.Fatal(err)
	}
	facts := new(drivertest.Printer).Facts(seen.Facts.(driver.HostFacts))
	for _, want := range []string{
		"link eth1 mtu 1500 mac random up inside master br0\n", "link br0 mtu 1500 mac random bridge",
		"  addr fd00:a::7/64 permanent tentative\n",
	} {
		if !strings.Contains(facts, want) {
			t.Errorf("the facts lack %q:\n%s", want, facts)
		}
	}
}

// sysctl changes a setting in the world's namespace.
func (w *world) sysctl(t *testing.T, settings ...string) {
	t.Helper()
	w.run(t, "procps", "sysctl", append([]string{"-qw"}, settings...)...)
}
