package lang

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
)

// DifferenceObserver is a daemon that says how its host differs from the desired state.
type DifferenceObserver interface {
	Differences() ([]node.Difference, error)
}

// diff performs
//
//	diff n1|all [own] [within=10s]
//
// It prints the lines of flannelctl diff on a node, or on every running one, with names in
// place of random values, or "no difference". With own, it leaves out what other programs cause:
// objects of theirs that the daemon names and does not remove, and the routes and next hops of their
// records that the kernel refuses. With within, it waits for a moment without a difference: a look
// may be interrupted, and a command may be due again.
func (s *Session) diff(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	own := a.flag("own")
	var within time.Duration
	a.duration("within", &within)
	name := a.word("node")
	if err := a.done(); err != nil {
		return "", err
	}
	for ; ; within -= tracePause {
		lines, err := s.differing(name, own)
		if err != nil {
			return "", err
		}
		if len(lines) == 0 {
			return "no difference", nil
		}
		if within < tracePause {
			return strings.Join(lines, "\n"), nil
		}
		s.letPass(tracePause)
	}
}

// differing returns the lines of a node, or of all running ones.
func (s *Session) differing(name string, own bool) ([]string, error) {
	which := []string{name}
	if name == "all" {
		which = s.running()
	}
	pairs, err := s.names()
	if err != nil {
		return nil, err
	}
	names := strings.NewReplacer(pairs...)
	var foreign []lease.Lease
	if own {
		foreign, err = s.foreignRecords()
		if err != nil {
			return nil, err
		}
	}
	var lines []string
	for _, name := range which {
		differences, err := s.differences(name)
		if err != nil {
			return nil, err
		}
		if s.hidesNextHops() {
			for i := range differences {
				differences[i].Lines = linesWithoutNextHops(differences[i].Lines)
			}
		}
		for _, line := range linesOf(differences, own, foreign) {
			if len(which) > 1 {
				line = name + ": " + line
			}
			lines = append(lines, names.Replace(line))
		}
	}
	return lines, nil
}

// differences returns the differences that a daemon has found. One that has exited by
// itself has none.
func (s *Session) differences(name string) ([]node.Difference, error) {
	observer, err := nodeWith[DifferenceObserver](s, name)
	if err != nil {
		return nil, err
	}
	differences, err := observer.Differences()
	if errors.Is(err, ErrNoDaemon) {
		return nil, nil
	}
	return differences, err
}

// foreignRecords returns the records that no node of the topology owns, also those that daemons
// keep serving though an accident of the datastore has lost them.
func (s *Session) foreignRecords() ([]lease.Lease, error) {
	records, err := s.world.Store().Records()
	if err != nil {
		return nil, err
	}
	var foreign []lease.Lease
	for _, r := range records {
		l, ok := r.lease()
		if !ok || slices.Contains(s.top.NodeNames(), s.owner(l)) {
			continue
		}
		foreign = append(foreign, l)
	}
	known, err := s.peersOfAll()
	if err != nil {
		return nil, err
	}
	for _, peers := range known {
		for _, p := range peers {
			if !slices.Contains(s.top.NodeNames(), s.ownerOf(p)) {
				attrs := lease.Attrs{PublicIP: p.PublicIP, PublicIPv6: p.PublicIP6}
				foreign = append(foreign, lease.Lease{Key: p.Subnet, Attrs: attrs})
			}
		}
	}
	return foreign, nil
}

// linesOf returns one line for each object and note; own leaves out what other programs and their
// records cause.
func linesOf(differences []node.Difference, own bool, foreign []lease.Lease) []string {
	var lines []string
	for _, d := range differences {
		for _, l := range d.Lines {
			if own && l.Why != "" && (l.Sign == "-" || leadsTo(l.Object, foreign)) {
				continue
			}
			line := l.Sign + " " + l.Object
			if l.Why != "" {
				line += "  # " + l.Why
			}
			lines = append(lines, line)
		}
		for _, note := range d.Notes {
			lines = append(lines, "# "+d.Lane+": "+note)
		}
	}
	return lines
}

// leadsTo reports whether an object is a route to the subnet of one of the records, or a next hop
// to its address.
func leadsTo(object string, records []lease.Lease) bool {
	o, err := dataplane.ParseObject(object)
	return err == nil && slices.ContainsFunc(records, func(r lease.Lease) bool {
		switch o := o.(type) {
		case dataplane.Route:
			return o.Dst == r.Key.V4 || o.Dst == r.Key.V6
		case dataplane.NextHop:
			return o.Via == r.Attrs.PublicIP || o.Via == r.Attrs.PublicIPv6
		}
		return false
	})
}
