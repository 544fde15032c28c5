package node

import (
	"fmt"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/uplink"
)

// followUplink chooses the uplink again when a look shows other facts; the one in
// use stays as long as it is valid. While none can be chosen, because a link is down
// or an address is being changed, the last one stays in force.
func (n *Node) followUplink() {
	h := &n.host
	if !h.looked || !n.network.known || h.chosen {
		return
	}
	h.chosen = true
	h.unreachable = n.opts.Uplink.Unreachable(h.facts)
	n.once(Warning, "cannot-reach", h.unreachable)
	up, err := n.selectUplink()
	if err != nil {
		n.reportNoUplink(err)
		h.noUplink = err
		return
	}
	if up != h.uplink {
		n.event(Info, "uplink", "using "+describeUplink(up)+n.describeFormer(up))
	} else if h.noUplink != nil {
		n.event(Info, "uplink-back", "using "+describeUplink(up)+" again")
	}
	h.uplink, h.noUplink = up, nil
	clear(h.keepMTU) // the uplink may carry more now
	n.checkHost()
}

// describeFormer names the addresses that a former run published and that this run,
// which chooses again, does not.
func (n *Node) describeFormer(up uplink.Uplink) string {
	text := ""
	for _, f := range cidr.Families {
		s := n.store.saved
		if n.host.uplink.Link != "" || s == nil {
			return ""
		}
		was := s.Self.Attrs.IP(f)
		if was.IsValid() && was != up.Public(f) {
			text += fmt.Sprintf("; the last run published %s", was)
		}
	}
	return text
}

// reportNoUplink logs that the choice of the uplink failed. Without an earlier
// uplink the process ends, unless an operator can fix the address in the
// datastore.
func (n *Node) reportNoUplink(err error) {
	h := &n.host
	switch {
	case h.uplink.Link == "" && n.waitsForAddress():
		n.once(Error, "assignment", err.Error())
	case h.uplink.Link == "":
		n.exit(err)
	case h.noUplink == nil:
		n.event(Warning, "uplink-lost", fmt.Sprintf("%v; keeping %s", err, describeUplink(h.uplink)))
	}
}

func describeUplink(u uplink.Uplink) string {
	text := fmt.Sprintf("%s (MTU %d", u.Link, u.MTU)
	for _, f := range cidr.Families {
		if u.Addr(f).IsValid() {
			text += fmt.Sprintf(", %s, public %s", u.Addr(f), u.Public(f))
		}
	}
	text += ")"
	if u.PassedOver != "" {
		text += "; passed over: " + u.PassedOver
	}
	return text
}
