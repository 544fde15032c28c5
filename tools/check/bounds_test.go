package check

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/tools/status"
)

// The tables as Linux 6.1 shows them: of connections with nf_conntrack_max at 20 after 60 packets, and of neighbours
// with gc_thresh3 at 8 after packets to 38 addresses and 20 permanent entries.
const (
	connectionsFull = "entries  clashres found new invalid ignore delete chainlength insert insert_failed drop " +
		"early_drop icmp_error  expect_new expect_create expect_delete search_restart\n" +
		"00000014  00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000028 00000000 " +
		"00000000  00000000 00000000 00000000 00000000\n"
	neighboursFull = "entries  allocs   destroys hash_grows lookups  hits     res_failed rcv_probes_mcast " +
		"rcv_probes_ucast periodic_gc_runs forced_gc_runs unresolved_discards table_fulls\n" +
		"0000001c 0000001e 00000002 00000002   0000002f 00000000 00000008   00000000         00000000         0000000e" +
		"         00000021       00000000            0000001f\n"
)

func TestReadBounds(t *testing.T) {
	root := tree(t, map[string]string{
		connCount[1:]: "20\n", connMost[1:]: "20\n", connStat[1:]: connectionsFull,
		"proc/net/stat/arp_cache": neighboursFull, "proc/sys/net/ipv4/neigh/default/gc_thresh3": "8\n",
	})
	g := gatherer{Sources: Sources{Root: root}}
	want := bounded{Table{Entries: 20, Most: 20, Refused: 40}, [2]Table{{Entries: 28, Most: 8, Refused: 31}, {}}}
	before := g.readBounds()
	if d := cmp.Diff(want, before, cmp.AllowUnexported(bounded{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	before.neighbours[0].Refused--
	g.compareBounds(before)
	if g.f.Connections.Now != 0 || g.f.Neighbours[0].Now != 1 {
		t.Errorf("while the command ran: %+v, %+v", g.f.Connections, g.f.Neighbours)
	}
}

const (
	connRemedy = " # sysctl net.netfilter.nf_conntrack_max; conntrack -S\n"
	noRoom     = " neighbours of IPv4: with those of all pods it has 28 entries, and keeps at most 8 that it learns " +
		"(gc_thresh3)"
	neighLook = " # sysctl net.ipv4.neigh.default; ip -s ntable show name arp_cache\n"
)

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		what        string
		connections Table
		neighbours  Table
		want        string
	}{
		{"room", Table{Entries: 17, Most: 20, Refused: 5, Now: 1}, Table{Entries: 28, Most: 128, Refused: 3}, ""},
		{"no tables", Table{}, Table{}, ""},
		{"nearly full", Table{Entries: 19, Most: 20}, Table{},
			"warning conntrack: connection tracking has 19 of at most 20 entries (nf_conntrack_max): when it is full, packets " +
				"that begin a connection are dropped" + connRemedy},
		{"full", Table{Entries: 20, Most: 20, Refused: 40}, Table{},
			"failure conntrack: connection tracking has 20 of at most 20 entries (nf_conntrack_max), so packets that begin a " +
				"connection are dropped while those of others pass: 40 since the host started. Make the table larger, or find " +
				"out what makes so many connections" + connRemedy},
		{"was full", Table{}, Table{Entries: 28, Most: 8, Refused: 31},
			"warning neighbours: the kernel has found no room for 31" + noRoom + ". That was at some time since the host " +
				"started; none while this command ran" + neighLook},
		{"is full", Table{}, Table{Entries: 28, Most: 8, Refused: 31, Now: 2},
			"failure neighbours: the kernel has found no room for 2" + noRoom + ". Packets to hosts and pods that have not " +
				"talked of late are dropped: make gc_thresh2 and gc_thresh3 larger" + neighLook},
	} {
		f := Facts{Connections: c.connections, Neighbours: [2]Table{c.neighbours, {}}}
		if d := cmp.Diff(c.want, told(f.bounds(), nil)); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, d)
		}
	}
}

// A datastore that cannot be read is a finding, with the advice about its fault if that is known.
func TestDatastore(t *testing.T) {
	f := Facts{Store: Store{Err: errors.New("dial tcp: refused"),
		Complaints: []string{"http://a:2379 says alarm:NOSPACE"}}}
	space := status.OfFault(lease.FaultSpace)
	want := "failure datastore: this command cannot read the datastore: dial tcp: refused # \n" +
		"failure datastore: http://a:2379 says alarm:NOSPACE: leases are renewed, and no record or config is written, so " +
		"no new node gets a subnet. What to do: " + space.Text + " # " + space.Command + "\n"
	if d := cmp.Diff(want, told(f.datastore(), nil)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	f.Store = Store{Err: errors.New("etcdserver: no leader")}
	leader := status.OfFault(lease.FaultLeader)
	want = "failure datastore: this command cannot read the datastore: etcdserver: no leader. What to do: " + leader.Text +
		" # " + leader.Command + "\n"
	if d := cmp.Diff(want, told(f.datastore(), nil)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
