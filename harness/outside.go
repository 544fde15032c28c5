package harness

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/cidr"
)

// Outside is a host of the underlay that is not part of the overlay: it sends
// packets for other segments to the router.
type Outside struct {
	*Host
	witness *witness
}

// Addr returns the host's address of a family.
func (o *Outside) Addr(f cidr.Family) netip.Addr { return underlayAddr(f, 0, outsideHost).Addr() }

func (l *Lab) addOutside(ctx context.Context) error {
	if !l.Options.Outside {
		return nil
	}
	// After a redirect it would bypass the router even long after the route has changed.
	h, err := l.newHost("outside", setting{"ipv4/conf/all/accept_redirects", "0"},
		setting{"ipv4/conf/default/accept_redirects", "0"},
		setting{"ipv6/conf/all/accept_redirects", "0"}, setting{"ipv6/conf/default/accept_redirects", "0"})
	if err != nil {
		return err
	}
	o := &Outside{Host: h}
	o.witness, err = newWitness(h)
	if err != nil {
		return fmt.Errorf("add the host outside: %w", err)
	}
	l.Outside = o
	return l.plugWithDefault(ctx, l.segments[0], h, outsideHost)
}

// Outward lets the router, and so the outside host, reach a network through a
// node; nil removes the route.
func (l *Lab) Outward(network netip.Prefix, by *Node) error {
	if by == nil {
		return l.Router.DelRoute(network)
	}
	dev := fmt.Sprintf("eth%d", by.segment.index)
	return l.Router.AddRoute(network, by.Underlay(cidr.FamilyOf(network.Addr())).Addr(), dev)
}
