package invariants

import (
	"slices"
	"strings"

	"github.com/flanneld/flannel/scenarios/check/oracle"
)

// Situation is the knowledge of a scenario about its world: it names the faults
// that excuse a node from a deadline.
type Situation struct {
	Directive []string // the last directive: verb and arguments
	Faults    []string // the lasting faults in force, such as "n2 cut" and "store slow"
	// Host describes a node's host after the topology and the faults so far.
	Host func(node string) (oracle.Host, error)
}

// Directed notes a directive of the scenario, after it was performed.
func (i *Invariants) Directed(s Situation) {
	i.compareHosts() // all changes so far happened in the former situation
	i.situation = s
	i.causes++
	i.crossing.directed(s.Directive, i)
	for _, name := range i.order {
		if touches(s.Directive, name) {
			i.nodes[name].disturbed()
			i.nodes[name].touched(s.Directive)
			i.nodes[name].noteAdded(s.Directive)
		}
	}
}

// noteAdded notes foreign objects that the scenario adds to the node's host. They
// may change which routes are right, until it removes them.
func (n *Node) noteAdded(directive []string) {
	if directive[0] == "fault" && len(directive) > 2 {
		n.follows.added = directive[2] == "add" || n.follows.added && directive[2] != "remove"
	}
}

// touches reports whether a directive may have changed a node's host.
func touches(directive []string, name string) bool {
	switch directive[0] {
	case "heal":
		return true
	case "fault":
		return slices.Contains(directive, name) || slices.ContainsFunc(directive, func(word string) bool {
			return word == "twin="+name || strings.HasPrefix(word, "vip=") // which another node may have had
		})
	}
	return false
}

// harmless lists the faults at a node that do not hinder its daemon's work on the host.
var harmless = []string{"cut", "denied", "part", "wire", "isolate", "clock", "tear", "full", "node", "hints", "kill"}

// hostFaults returns the lasting faults in force on a node's host.
func (i *Invariants) hostFaults(name string) []string {
	return i.faultsThat(func(words []string) bool {
		return slices.Contains(words, name) && !slices.Contains(harmless, words[min(1, len(words)-1)])
	})
}

// storeFaults returns the lasting faults in force that may keep a node from
// reading and writing the store.
func (i *Invariants) storeFaults(name string) []string {
	return i.faultsThat(func(words []string) bool {
		return slices.Contains(words, "store") || slices.Contains(words, name) || strings.HasPrefix(words[0], "segment")
	})
}

func (i *Invariants) faultsThat(count func(words []string) bool) []string {
	var names []string
	for _, fault := range i.situation.Faults {
		if count(strings.Fields(fault)) {
			names = append(names, fault)
		}
	}
	return names
}
