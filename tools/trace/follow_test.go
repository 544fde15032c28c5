package trace

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/output/outputtest"
)

// A packet is followed from the node of its source, over this host or another one, until it ends, arrives or a host
// cannot be asked.
func TestFollow(t *testing.T) {
	const here = "this host"
	arrives := &Result{Hops: []Hop{{Step: "leave", Text: "to the pod"}}, Arrived: true}
	ends := &Result{Hops: []Hop{{Step: "tunnel", Text: "no entry"}}, Reason: "fdb_missing", Remedy: "wait"}
	to := func(next string) *Result {
		return &Result{Hops: []Hop{{Step: "leave", Text: "by eth0"}}, Next: addr(next)}
	}
	const n1, n2 = "192.168.64.1", "192.168.64.2" // this host, and its peer
	for _, c := range []struct {
		name, src, dst string
		answers        map[string]*Result
		trouble        bool
		want           string
	}{
		{"to a peer", "10.5.1.7", "10.5.2.7", map[string]*Result{here: to(n2), n2: arrives}, false,
			"on this host:\n1  leave  by eth0\non 192.168.64.2:\n1  leave  to the pod\narrives\n"},
		{"from a peer", "10.5.2.7", "10.5.1.7", map[string]*Result{n2: to(n1), here: arrives}, false,
			"on 192.168.64.2:\n1  leave  by eth0\non this host:\n1  leave  to the pod\narrives\n"},
		{"it ends there", "10.5.1.7", "10.5.2.7", map[string]*Result{here: to(n2), n2: ends}, true,
			"on this host:\n1  leave  by eth0\non 192.168.64.2:\n1  tunnel  no entry\nends here: fdb_missing\nwait\n"},
		{"it ends here", "10.5.1.7", "10.5.2.7", map[string]*Result{here: ends}, true,
			"on this host:\n1  tunnel  no entry\nends here: fdb_missing\nwait\n"},
		{"no answer there", "10.5.1.7", "10.5.2.7", map[string]*Result{here: to(n2)}, true,
			"on this host:\n1  leave  by eth0\non 192.168.64.2:\nnot known: cannot be asked\n"},
		{"no answer here", "10.5.1.7", "10.5.2.7", nil, true, "on this host:\nnot known: cannot be asked\n"},
	} {
		ask := func(name string) (*Result, error) {
			if r := c.answers[name]; r != nil {
				return r, nil
			}
			return nil, errors.New("cannot be asked")
		}
		j := Follow(t.Context(), Flow{Src: addr(c.src), Dst: addr(c.dst)}, known,
			func(context.Context) (*Result, error) { return ask(here) },
			func(_ context.Context, a netip.Addr) (*Result, error) { return ask(a.String()) })
		if d := cmp.Diff(c.want, outputtest.Print(t, output.Printer{}, j)); d != "" || j.Trouble() != c.trouble {
			t.Errorf("%s: trouble %t (-want +got):\n%s", c.name, j.Trouble(), d)
		}
	}
}

// Two hosts that send a packet to each other do not keep the command for ever.
func TestFollowEnds(t *testing.T) {
	asked := 0
	there := func(context.Context, netip.Addr) (*Result, error) {
		asked++
		return &Result{Next: addr("192.168.64.2")}, nil
	}
	j := Follow(t.Context(), Flow{Src: addr("10.5.1.7"), Dst: addr("10.5.2.7")}, known,
		func(ctx context.Context) (*Result, error) { return there(ctx, netip.Addr{}) }, there)
	if asked != mostStages || !j.Trouble() {
		t.Errorf("asked %d hosts, trouble %t", asked, j.Trouble())
	}
}
