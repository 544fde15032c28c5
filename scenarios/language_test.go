package scenarios

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/scenarios/lang"
)

// TestMistakesInAFile checks that a mistake in a file gives an error that names it.
func TestMistakesInAFile(t *testing.T) {
	tests := []struct{ directive, want string }{
		{"topology", "error: there is a topology already"},
		{"fly n1", "error: unknown verb \"fly\"; known are " + strings.Join(lang.VerbNames(), ", ")},
		{"start n9", `error: no node "n9"; there are n1 to n2`},
		{"settle within=soon", "error: within=soon: want a duration such as 30s"},
		{"settle n1 for=ever", "error: unexpected argument for=ever"},
		{"wait n1", "error: condition is missing"},
		{"wait leases=many", "error: leases=many: want a number"},
		{"ping n1.pod n2.pod n1.pod", `error: unexpected word "n1.pod"`},
		{"ping n1.pod n2.pod size=28", "error: size=28: want 29 to 65535"},
		{"ping n1.pod n2.pod size=65536 df", "error: size=65536: want 29 to 65535"},
		{"ping n7 n2.pod", `error: no pod "n7": want n1.pod`},
		{"ping outside n2.pod", `error: no pod "outside": want n1.pod`},
		{"fault n1 firewall burn", "error: fault firewall burn: want one of " + strings.Join(lang.FirewallHarmNames(), ", ")},
		{"fault n1 firewall mark=red", "error: mark=red: want a number of 32 bits"},
		{"topology firewall=thick", "error: there is a topology already"},
		{"ping n1.pod n2.pod", "error: n1.pod does not exist: its node has not settled yet"},
		{"mtu n1.pod size=(1, 2)", "error: argument size has 2 values: want one\nto is missing"},
		{"stream stop n1.pod n2.pod", "error: no stream from n1.pod to n2.pod"},
		{"stream pause n1.pod n2.pod", "error: stream pause: want start or stop"},
		{"fault n3 cut", `error: no node "n3"`},
		{"fault n1 burn", "error: fault burn: want one of " + strings.Join(lang.FaultNames(), ", ")},
		{"fault n1 wire loss=2", "error: loss=2: want a number from 0 to 1"},
		{"fault n1 part n1", "error: a node cannot be parted from itself"},
		{"fault n1 ops ESRCH", "error: fault ops ESRCH: want ENOBUFS, EBUSY, EEXIST, ENOENT or heal"},
		{"fault n1 file subnet old", "error: no subnet file of n1 was kept"},
		{"fault n1 clock", "error: fault clock: want ahead=DURATION, behind=DURATION or right"},
		{"fault n1 kill", "error: fault kill: want boundary=N, from 1 on"},
		{"fault n1 request lost", "error: no daemon runs"},
		{"fault segment7 wire loss=1", "error: no segment7; there are segment0 to segment0"},
		{"metric n1 flannel_ready", "error: want is=NUMBER or above=NUMBER"},
		{"metric n1 flannel_ready is=many", "error: many: want a number"},
		{"metric n9 flannel_ready is=1", `error: no node "n9"`},
		{"store burn", "error: store burn: want one of backup, clobber, compact, config, delete, end-change, events, " +
			"expire, firewall, forge, leaderless, lose-data, lossy, merge, put, reserve, restore, slow, stale, start, stop, " +
			"take, unreserve, wipe"},
		{"store take n1 by=him", `error: by=him: ParseAddr("him"): unable to parse IP`},
		{"store expire n1", "error: n1 has no record"},
	}
	for _, tt := range tests {
		t.Run(tt.directive, func(t *testing.T) {
			if diff := cmp.Diff(tt.want+"\n", run(t, simSession(1), "topology", tt.directive)); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheFirstCommandIsATopology(t *testing.T) {
	const want = "error: a scenario begins with a topology\n"
	if got := run(t, simSession(1), "settle"); got != want {
		t.Errorf("answer %q, want %q", got, want)
	}
	for directive, want := range map[string]string{
		"topology families=v5":  "error: families=v5: want v4, v6 or dual\n",
		"topology knots=3":      "error: unexpected argument knots=3\n",
		"topology nodes=a ttl=": "error: nodes=a: want a number\nttl=: want a duration such as 30s\n",
	} {
		if got := run(t, simSession(1), directive); got != want {
			t.Errorf("%s: answer %q, want %q", directive, got, want)
		}
	}
}

// TestBlocksForAnotherWorld checks that a block for another world is skipped: it gives
// its expected output.
func TestBlocksForAnotherWorld(t *testing.T) {
	s := simSession(1)
	text := "topology\n----\nok\n\nping n1.pod n2.pod only=netns\n----\nwhatever\n"
	datadriven.RunTestFromString(t, text, func(_ *testing.T, d *datadriven.TestData) string { return s.Run(d) })
	want := []string{"<string>:5: ping is for netns only"}
	if diff := cmp.Diff(want, s.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if got := run(t, s, "ping n1.pod n2.pod only=sim"); !strings.HasPrefix(got, "error: n1.pod does not exist") {
		t.Errorf("a block for this world answers %q", got)
	}
}

// TestForcedNextHops checks that routes use next-hop objects as asked, unless the topology says how, and
// that "state" then prints the same as without them. An object that no route uses stays visible.
func TestForcedNextHops(t *testing.T) {
	const plain = "route <n1>/24 dev cni0 scope 253 proto 2\nroute <n2>/24 via 192.168.64.2 dev eth0\n"
	const object = "nexthop <n2> via 192.168.64.2 dev eth0\nroute <n1>/24 dev cni0 scope 253 proto 2\n" +
		"route <n2>/24 nhid <n2> via 192.168.64.2 dev eth0\n"
	const unused = "nexthop 10.77.0.0 via 192.168.64.2 dev eth0"
	for _, tt := range []struct {
		when, topology string
		objects        int
		want           string
	}{
		{"", "", 0, plain},
		{"always", "", 1, plain},
		{"never", "", 0, plain},
		{"always", " nexthops=3", 0, plain},
		{"always", " nexthops=1", 1, object},
		{"never", " nexthops=1", 1, object},
	} {
		t.Run(tt.when+tt.topology, func(t *testing.T) {
			s := choice{nextHops: tt.when}.maker(t, "sim", "cases/hostgw-basic.txt")
			got := run(t, s, "topology backend=host-gw"+tt.topology, "start", "settle", "state n1")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if n := objectsOf(t, s, "n1"); n != tt.objects {
				t.Errorf("n1 has %d next-hop objects, want %d", n, tt.objects)
			}
			add := "fault n1 add\n" + unused
			if got := run(t, s, add, "state n1"); !strings.HasPrefix(got, unused+"\n") {
				t.Errorf("with an object that no route uses:\n%s", got)
			}
		})
	}
}

// objectsOf counts a node's next-hop objects.
func objectsOf(t *testing.T, s *lang.Session, node string) int {
	t.Helper()
	n, err := s.World().Node(node)
	if err != nil {
		t.Fatal(err)
	}
	state, err := n.(lang.Kernel).State(dataplane.Extent{})
	if err != nil {
		t.Fatal(err)
	}
	return state.NextHops.Len()
}

func TestWrongNextHops(t *testing.T) {
	const want = `next hops "often": want always or never`
	if err := simSession(1).ForceNextHops("often"); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestRequired(t *testing.T) {
	got := required("# requires=vxlan\ntopology\n----\nok\n\n# requires=nothing more\n")
	if diff := cmp.Diff([]string{"vxlan", "nothing more"}, got); diff != "" {
		t.Errorf("required (-want +got):\n%s", diff)
	}
	for text, want := range map[string]string{
		"topology nodes=2 backend=udp\n----\nok\n": "tun",
		`{"Type":"wireguard","MTU":1400}`:          "tun",
		"topology nodes=3 backend=extension\n":     "ip",
	} {
		if diff := cmp.Diff([]string{want}, required(text)); diff != "" {
			t.Errorf("%s: required (-want +got):\n%s", text, diff)
		}
	}
}

// run performs directives without input and returns the answer of the last one.
func run(t *testing.T, s *lang.Session, directives ...string) (last string) {
	t.Helper()
	for _, d := range directives {
		datadriven.RunTestFromString(t, d+"\n----\n", func(t *testing.T, d *datadriven.TestData) string {
			last = s.Run(d)
			return d.Expected
		})
	}
	return last
}
