package scenarios

import (
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
)

// Carrier implements [Node].
func (n *simNode) Carrier(on bool) error { return n.Host.Carrier("eth0", on) }

// File implements [Node].
func (n *simNode) File(f node.File) ([]byte, error) {
	data, _ := n.daemon.File(f)
	return data, nil
}

// SetFile implements [Node].
func (n *simNode) SetFile(f node.File, data []byte) error {
	n.daemon.SetFile(f, data)
	return nil
}

func (n *simNode) refuseLooks(probability float64) { n.RefuseLooks(probability) }
func (n *simNode) loseHints(probability float64)   { n.LoseHints(probability) }

// denyAt lets none of the node's packets reach another.
func (n *simNode) denyAt(to *simNode, on bool) error {
	if w := to.Wire("eth0"); w != nil {
		w.Deny(n.Host, on)
	}
	return nil
}

// holds is the subnet that the node goes by.
func (n *simNode) holds() lease.Key {
	if key := n.daemon.Status().Subnet; key.IsValid() {
		return key
	}
	return subnetfile.Previous([]byte(n.SubnetFile()))
}

// runSecond starts another daemon beside the node's own, or ends it; the own
// one then starts anew, since it cannot know what became of its files.
func (n *simNode) runSecond(on bool) error {
	if !on {
		if n.second != nil {
			n.second.Kill()
			if n.daemon.Running() {
				n.daemon.Kill()
				n.daemon.Start()
			}
		}
		return nil
	}
	n.twinned = true
	if n.second == nil {
		n.second = n.daemon.Second()
	}
	n.second.Start()
	return nil
}
