package kernel

import (
	"context"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// TestLookAtFewMissesWhatIsNotAnnounced has another program change two neighbours. A look that
// reads one again shows both if the kernel has announced that, and only the one if the hints
// were lost. A whole look shows both.
func TestLookAtFewMissesWhatIsNotAnnounced(t *testing.T) {
	for _, lost := range []bool{false, true} {
		l := underlay(t, 1, 1)
		h := l.hosts[0]
		d := h.NewProcess(nil, nil).Driver()
		parse := func(line string) dataplane.Op {
			op, err := dataplane.ParseOp(line)
			must(t, err)
			return op
		}
		apply := func(line string) { must(t, d.Apply(context.Background(), []dataplane.Op{parse(line)})[0]) }
		apply("add link flannel.1 type vxlan mtu 1450 up id 1 dev eth0 local 192.168.64.1 port 8472")
		apply("add neigh 10.5.3.0 lladdr 02:00:00:00:00:03 dev flannel.1")
		apply("add neigh 10.5.4.0 lladdr 02:00:00:00:00:04 dev flannel.1")
		look := func(again []dataplane.Object) string {
			extent := dataplane.Extent{Links: []string{"flannel.1"}, Again: again}
			seen, err := d.Look(context.Background(), extent)
			must(t, err)
			text := ""
			for _, n := range seen.State.Neighs.All {
				text += n.String() + "\n"
			}
			return text
		}
		look(nil)
		if lost {
			h.LoseHints(1)
		}
		first := parse("replace neigh 10.5.3.0 lladdr 02:00:00:00:00:13 dev flannel.1").Object
		must(t, h.Replace(first))
		must(t, h.Replace(parse("replace neigh 10.5.4.0 lladdr 02:00:00:00:00:14 dev flannel.1").Object))
		apply("add neigh 10.5.5.0 lladdr 02:00:00:00:00:05 dev flannel.1")
		want := "neigh 10.5.3.0 lladdr 02:00:00:00:00:13 dev flannel.1\n"
		other := "neigh 10.5.4.0 lladdr 02:00:00:00:00:14 dev flannel.1\n"
		own := "neigh 10.5.5.0 lladdr 02:00:00:00:00:05 dev flannel.1\n"
		before := "neigh 10.5.4.0 lladdr 02:00:00:00:00:04 dev flannel.1\n"
		few := other
		if lost {
			few = before
		}
		if got := look([]dataplane.Object{first}); got != want+few+own {
			t.Errorf("lost %t: a look at few objects shows\n%s", lost, got)
		}
		if got := look(nil); got != want+other+own {
			t.Errorf("lost %t: a whole look shows\n%s", lost, got)
		}
	}
}

// TestOwnChangesNeedNoHint has one of two programs on a host change a neighbour, and then a
// link. At the first change only the other one hears a hint.
func TestOwnChangesNeedNoHint(t *testing.T) {
	l := underlay(t, 1, 1)
	one, two := l.hosts[0].NewProcess(nil, nil), l.hosts[0].NewProcess(nil, nil)
	heard := [2]int{}
	one.OnHint(func() { heard[0]++ })
	two.OnHint(func() { heard[1]++ })
	for _, c := range []struct {
		line string
		want [2]int
	}{
		{"add link flannel.1 type vxlan mtu 1450 up id 1 dev eth0 local 192.168.64.1 port 8472", [2]int{1, 1}},
		{"add neigh 10.5.3.0 lladdr 02:00:00:00:00:03 dev flannel.1", [2]int{1, 2}},
		{"del neigh 10.5.3.0 lladdr 02:00:00:00:00:03 dev flannel.1", [2]int{1, 3}},
	} {
		op, err := dataplane.ParseOp(c.line)
		must(t, err)
		must(t, one.Driver().Apply(context.Background(), []dataplane.Op{op})[0])
		l.Run(time.Second)
		if heard != c.want {
			t.Errorf("%s: %v hints, want %v", c.line, heard, c.want)
		}
	}
}
