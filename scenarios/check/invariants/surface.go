package invariants

import (
	"encoding/json"
	"strings"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
)

// surface holds all that a node may have on its host: the devices, ports and programs of the configs that the node
// has had in force, over all its processes. Rules T1 and T2 (docs/security.md): no record opens a device, a port, a
// program or a key.
type surface struct {
	noted    map[string]bool // the configs
	links    map[string]bool
	ports    map[uint16]bool // UDP ports
	commands map[string]bool // texts of the operator's commands
	policies bool            // of IPsec, with the programs that make their keys
	clear    bool            // one of the backends does not encrypt
}

// noteSurface adds what the config in force names, and what the config says that its network had formerly.
func (n *Node) noteSurface() {
	s := &n.surface
	for _, text := range []string{n.config, n.resumable} {
		if text == "" || s.noted[text] {
			continue
		}
		if s.noted == nil {
			*s = surface{noted: map[string]bool{}, links: map[string]bool{}, ports: map[uint16]bool{},
				commands: map[string]bool{}}
		}
		s.noted[text] = true
		for _, network := range backendsOf(text) {
			s.add(network)
		}
	}
}

// backendsOf returns the configs that a text stands for: its own, and one for each backend that its member Formerly
// names.
func backendsOf(text string) []config.Network {
	var configs []config.Network
	if network, _, ok := usableConfig(text); ok {
		configs = append(configs, network)
	}
	var members map[string]json.RawMessage
	var formerly []json.RawMessage
	if json.Unmarshal([]byte(text), &members) != nil || json.Unmarshal(members["Formerly"], &formerly) != nil {
		return configs
	}
	for _, object := range formerly {
		members["Backend"] = object
		whole, err := json.Marshal(members)
		if err != nil {
			continue
		}
		if network, _, ok := usableConfig(string(whole)); ok {
			configs = append(configs, network)
		}
	}
	return configs
}

func (s *surface) add(network config.Network) {
	b, err := all.New(network)
	if err != nil {
		return
	}
	extent := b.Extent()
	for _, name := range extent.Links {
		s.links[name] = true
	}
	if a, ok := b.(backend.Asider); ok {
		for _, r := range a.Renamings() {
			s.links[r.From], s.links[r.To] = true, true
		}
	}
	spec, _ := all.Find(network.Backend.Type)
	for _, p := range spec.Ports(network) {
		s.ports[p.Number] = true
	}
	s.policies = s.policies || extent.Policies
	s.clear = s.clear || !encrypts(network.Backend.Type)
	var options map[string]any
	_ = json.Unmarshal(network.Backend.Options, &options)
	for name, value := range options {
		if text, ok := value.(string); ok && strings.HasSuffix(name, "Command") {
			s.commands[text] = true
		}
	}
}

// checkSurface checks that a plan makes only what the surface holds.
func (n *Node) checkSurface(plan []dataplane.Op) {
	n.noteSurface()
	if !n.all.judgesClaims || len(n.surface.noted) == 0 {
		return
	}
	for _, op := range plan {
		if op.Verb == dataplane.Delete {
			continue
		}
		if what := n.surface.exceeds(op.Object); what != "" {
			n.all.broken("surface", "%s is about to do %q: no config that it has had in force names %s", n.name, op, what)
		}
	}
}

// exceeds names the part of an object that is not on the surface, or returns "".
func (s *surface) exceeds(o dataplane.Object) string {
	if device := deviceOf(o); all.NamesDevice(device) && !s.links[device] {
		return "the device " + device
	}
	switch o := o.(type) {
	case dataplane.Link:
		switch p := o.Params.(type) {
		case dataplane.VXLAN:
			return s.lacksPort(p.Port)
		case dataplane.WireGuard:
			return s.lacksPort(p.ListenPort)
		}
	case dataplane.Proxy:
		return s.lacksPort(o.Local.Port())
	case dataplane.Command:
		if o.Text != "" && !s.commands[o.Text] || o.Undo != "" && !s.commands[o.Undo] {
			return "the command"
		}
	case dataplane.Policy, dataplane.Conn, dataplane.SharedKey:
		if !s.policies {
			return "IPsec"
		}
	}
	return ""
}

func (s *surface) lacksPort(port uint16) string {
	if port == 0 || s.ports[port] {
		return ""
	}
	return "its port"
}
