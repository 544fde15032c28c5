package lang

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
)

// DifferenceObserver is a daemon that says how its host differs from the desired state.
type DifferenceObserver interface {
	Differences() ([]node.Difference, error)
}

// diff performs
//
//	diff n1|all [own]
//
// It prints the lines of flannelctl diff on a node, or on every running one, with names in
// place of random values, or "no difference". With own, it leaves out what other programs cause:
// objects of theirs that the daemon names and does not remove, and routes to the subnets of their
// records that the kernel refuses.
func (s *Session) diff(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	own := a.flag("own")
	name := a.word("node")
	if err := a.done(); err != nil {
		return "", err
	}
	which := []string{name}
	if name == "all" {
		which = s.running()
	}
	pairs, err := s.names()
	if err != nil {
		return "", err
	}
	names := strings.NewReplacer(pairs...)
	var foreign []netip.Prefix
	if own {
		foreign, err = s.foreignSubnets()
		if err != nil {
			return "", err
		}
	}
	var lines []string
	for _, name := range which {
		differences, err := s.differences(name)
		if err != nil {
			return "", err
		}
		for _, line := range linesOf(differences, own, foreign) {
			if len(which) > 1 {
				line = name + ": " + line
			}
			lines = append(lines, names.Replace(line))
		}
	}
	if len(lines) == 0 {
		return "no difference", nil
	}
	return strings.Join(lines, "\n"), nil
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

// foreignSubnets returns the subnets of records that no node of the topology owns.
func (s *Session) foreignSubnets() ([]netip.Prefix, error) {
	records, err := s.world.Store().Records()
	if err != nil {
		return nil, err
	}
	var subnets []netip.Prefix
	for _, r := range records {
		l, ok := r.lease()
		if !ok || slices.Contains(s.top.NodeNames(), s.owner(l)) {
			continue
		}
		subnets = append(subnets, l.Key.V4, l.Key.V6)
	}
	return subnets, nil
}

// linesOf returns one line for each object and note; own leaves out what other programs cause,
// which have records for the foreign subnets.
func linesOf(differences []node.Difference, own bool, foreign []netip.Prefix) []string {
	var lines []string
	for _, d := range differences {
		for _, l := range d.Lines {
			if own && l.Why != "" && (l.Sign == "-" || routesTo(l.Object, foreign)) {
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

// routesTo reports whether an object is a route to one of the subnets.
func routesTo(object string, subnets []netip.Prefix) bool {
	o, err := dataplane.ParseObject(object)
	route, is := o.(dataplane.Route)
	return err == nil && is && slices.Contains(subnets, route.Dst)
}
