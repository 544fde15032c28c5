package node

import (
	"fmt"

	"github.com/flanneld/flannel/core/probe"
)

// followCutOff decides whether the silence of all peers keeps the node from being ready. A peer that has not been
// examined yet keeps a ready node ready, and does not make it ready again.
func (n *Node) followCutOff() {
	s, after := &n.probes, n.opts.ProbeUnreadyAfter
	if after <= 0 {
		return
	}
	before := s.cutOff
	silent, is := s.prober.StillSilent()
	if before == "" {
		silent, is = s.prober.AllSilent(after)
	}
	s.cutOff = ""
	if is {
		s.cutOff = n.silenceOf(silent)
	}
	switch {
	case before == "" && is:
		n.event(Warning, "no-peer-answers", s.cutOff+"; the node is not ready until one answers")
	case before != "" && !is:
		n.event(Info, "some-peer-answers", "a peer answers again, or no two are left that should")
	}
}

// silenceOf says which peers do not answer, and what the node has tried.
func (n *Node) silenceOf(s probe.AllSilent) string {
	text := fmt.Sprintf("no peer answers probes: %d are silent for %s or longer (tried ICMP, and TCP to port %d); "+
		"the first, %s, %s", s.Peers, n.opts.ProbeUnreadyAfter, probe.ClosedPort, s.First, s.Result.Text())
	if !s.Result.UplinkAnswers && s.Uplink.IsValid() && s.Uplink != s.Result.Address {
		text += fmt.Sprintf(", and its uplink %s does not answer ICMP, either", s.Uplink)
	}
	return text + "; flannelctl peers shows all"
}
