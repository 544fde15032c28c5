package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/internal/storefault"
	"github.com/flanneld/flannel/tools/status"
)

// The files that describe the kernel's tables. Those of neighbours exist in the host's own namespace alone, and count
// the entries of all.
const (
	connCount = "/proc/sys/net/netfilter/nf_conntrack_count"
	connMost  = "/proc/sys/net/netfilter/nf_conntrack_max"
	connStat  = "/proc/net/stat/nf_conntrack"
)

// bounded are the tables of the kernel with a bound, at one moment.
type bounded struct {
	connections Table
	neighbours  [2]Table
}

// readBounds reads the tables that have a bound.
func (g *gatherer) readBounds() (b bounded) {
	b.connections = g.readConnections()
	for _, f := range cidr.Families {
		b.neighbours[f] = g.readNeighbours(f)
	}
	return b
}

// compareBounds reads the tables again, and counts what found no room since then.
func (g *gatherer) compareBounds(before bounded) {
	now := g.readBounds()
	g.f.Connections, g.f.Neighbours = now.connections, now.neighbours
	g.f.Connections.Now = now.connections.Refused - before.connections.Refused
	for _, f := range cidr.Families {
		g.f.Neighbours[f].Now = now.neighbours[f].Refused - before.neighbours[f].Refused
	}
}

// readConnections reads the table of connection tracking.
func (g *gatherer) readConnections() Table {
	t := Table{Entries: g.number(connCount), Most: g.number(connMost)}
	t.Refused = summed(g.text(connStat), "drop")
	return t
}

// readNeighbours reads the table of neighbours of a family.
func (g *gatherer) readNeighbours(f cidr.Family) Table {
	stat := g.text("/proc/net/stat/" + cidr.Pick(f, "arp_cache", "ndisc_cache"))
	most := g.number("/proc/sys/net/" + cidr.Pick(f, "ipv4", "ipv6") + "/neigh/default/gc_thresh3")
	return Table{Entries: int(first(stat, "entries")), Most: most, Refused: summed(stat, "table_fulls")}
}

// number returns the number in a file, 0 if it has none.
func (g *gatherer) number(path string) int {
	n, err := strconv.Atoi(strings.TrimSpace(g.text(path)))
	if err != nil {
		return 0
	}
	return n
}

// column returns the values of a column of a table below /proc/net/stat, one for each processor. They are hexadecimal.
func column(text, name string) []uint64 {
	rows := lines(text)
	if len(rows) == 0 {
		return nil
	}
	at := slices.Index(strings.Fields(rows[0]), name)
	var values []uint64
	for _, row := range rows[1:] {
		words := strings.Fields(row)
		if at < 0 || at >= len(words) {
			continue
		}
		if v, err := strconv.ParseUint(words[at], 16, 64); err == nil {
			values = append(values, v)
		}
	}
	return values
}

// summed returns the sum of a column.
func summed(text, name string) (sum uint64) {
	for _, v := range column(text, name) {
		sum += v
	}
	return sum
}

// first returns the first value of a column, which is the same for each processor.
func first(text, name string) uint64 {
	values := column(text, name)
	if len(values) == 0 {
		return 0
	}
	return values[0]
}

// bounds judges the tables of the kernel that may be full. A full one drops what is new, and what it holds goes on.
func (f *Facts) bounds() []Finding {
	var found []Finding
	c := f.Connections
	text := fmt.Sprintf("connection tracking has %d of at most %d entries (nf_conntrack_max)", c.Entries, c.Most)
	finding := Finding{Topic: "conntrack", Remedy: "sysctl net.netfilter.nf_conntrack_max; conntrack -S"}
	almost := c.Entries >= c.Most/10*9
	switch {
	case c.Most == 0:
		return f.neighbours()
	case c.Entries >= c.Most && c.Refused > 0, almost && c.Now > 0:
		finding.Level = Failure
		finding.Text = text + fmt.Sprintf(", so packets that begin a connection are dropped while those of others pass: %d "+
			"since the host started. Make the table larger, or find out what makes so many connections", c.Refused)
		found = append(found, finding)
	case almost:
		finding.Level = Warning
		finding.Text = text + ": when it is full, packets that begin a connection are dropped"
		found = append(found, finding)
	}
	return append(found, f.neighbours()...)
}

// neighbours judges the tables of neighbours. The entries of tunnels are permanent, and need no room.
func (f *Facts) neighbours() []Finding {
	var found []Finding
	for _, family := range cidr.Families {
		t := f.Neighbours[family]
		name := cidr.Pick(family, "ipv4", "ipv6")
		text := fmt.Sprintf("the kernel has found no room for %%d neighbours of %s: with those of all pods it has %d "+
			"entries, and keeps at most %d that it learns (gc_thresh3)", family, t.Entries, t.Most)
		finding := Finding{Topic: "neighbours", Remedy: fmt.Sprintf("sysctl net.%s.neigh.default; ip -s ntable show name %s",
			name, cidr.Pick(family, "arp_cache", "ndisc_cache"))}
		switch {
		case t.Now > 0:
			finding.Level = Failure
			finding.Text = fmt.Sprintf(text, t.Now) + ". Packets to hosts and pods that have not talked of late are dropped: " +
				"make gc_thresh2 and gc_thresh3 larger"
			found = append(found, finding)
		case t.Refused > 0 && t.Most > 0 && t.Entries >= t.Most:
			finding.Level = Warning
			finding.Text = fmt.Sprintf(text, t.Refused) + ". That was at some time since the host started; none while this " +
				"command ran"
			found = append(found, finding)
		}
	}
	return found
}

// datastore judges what this command has found at the datastore itself.
func (f *Facts) datastore() []Finding {
	var found []Finding
	if err := f.Store.Err; err != nil {
		finding := Finding{Level: Failure, Topic: "datastore", Text: "this command cannot read the datastore: " + err.Error()}
		if advice := status.OfFault(lease.FaultOf(storefault.Mark(err))); advice != (status.Advice{}) {
			finding.Text += ". What to do: " + advice.Text
			finding.Remedy = advice.Command
		}
		found = append(found, finding)
	}
	for _, said := range f.Store.Complaints {
		finding := Finding{Level: Failure, Topic: "datastore", Text: said,
			Remedy: "etcdctl alarm list; etcdctl endpoint status"}
		if strings.HasSuffix(said, "alarm:NOSPACE") {
			advice := status.OfFault(lease.FaultSpace)
			finding.Text += ": leases are renewed, and no record or config is written, so no new node gets a subnet. What to " +
				"do: " + advice.Text
			finding.Remedy = advice.Command
		}
		found = append(found, finding)
	}
	return found
}
