package ipsec

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// Type is the backend's name in configs and leases.
const Type = "ipsec"

// The bytes that the contract keeps free for the outer headers, the cipher's own data
// and padding, and for UDP as well (interop 6.0).
const (
	overhead    = 77
	overheadUDP = 85
)

// defaultProposal holds the contract's algorithms for ESP (interop 6.6).
const defaultProposal = "aes128gcm16-sha256-prfsha256-ecp256"

// shortestPSK is the length of the shortest pre-shared key, in characters (interop 6.6).
const shortestPSK = 96

// Spec describes the backend and its options (interop 6.6).
func Spec() backend.Spec {
	return backend.Spec{
		Type: Type, Summary: "ESP by strongSwan's charon", Carries: []backend.Families{backend.IPv4Only}, New: open,
		Alone:      true,                // its policies catch the packets to every peer
		FixedPorts: []uint16{500, 4500}, // of IKE
		Encrypts:   true,
		Lanes:      []string{"ike"}, Needs: "/usr/lib/ipsec/charon",
		Options: []backend.Option{
			{Name: "PSK", Kind: backend.Passphrase, Default: `""`, Required: true,
				Example: `"` + strings.Repeat("0123456789abcdef", shortestPSK/16) + `"`,
				Help:    "pre-shared key of all nodes, at least 96 characters"},
			{Name: "UDPEncap", Kind: backend.Switch, Default: "false", Example: "true",
				Help: "ESP always travels in UDP, for networks that drop other protocols"},
			{Name: "ESPProposal", Kind: backend.Text, Default: `"` + defaultProposal + `"`,
				Example: `"aes256gcm16-sha384-prfsha384-ecp384"`,
				Help:    "algorithms, as strongSwan names them; the same on all nodes"},
		},
	}
}

// Backend renders ipsec. It is immutable.
type Backend struct {
	// PSK is exported, for package fmt ignores the methods of other fields and
	// would print the key.
	PSK      dataplane.Passphrase
	encap    bool
	proposal string
}

var (
	_ backend.Backend = Backend{}
	_ backend.Noter   = Backend{}
)

func open(network config.Network) (backend.Backend, error) {
	var o struct {
		PSK         string
		UDPEncap    bool
		ESPProposal string
	}
	if err := json.Unmarshal(network.Backend.Options, &o); err != nil {
		return nil, fmt.Errorf("options of %s: cannot be read", Type) // the error may quote the key
	}
	switch {
	case o.PSK == "":
		return nil, fmt.Errorf("Backend PSK: %s needs a pre-shared key of at least %d characters", Type, shortestPSK)
	case len(o.PSK) < shortestPSK:
		return nil, fmt.Errorf("Backend PSK: want at least %d characters, have %d", shortestPSK, len(o.PSK))
	case !isProposal(o.ESPProposal):
		return nil, fmt.Errorf("Backend ESPProposal %q: want algorithms as strongSwan names them, such as %s",
			o.ESPProposal, defaultProposal)
	}
	return Backend{PSK: dataplane.NewPassphrase(o.PSK), encap: o.UDPEncap, proposal: o.ESPProposal}, nil
}

// isProposal reports whether a text has the form of one proposal: names with "-" between
// them. Only charon knows which names there are.
func isProposal(text string) bool {
	for name := range strings.SplitSeq(text, "-") {
		if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return false
		}
	}
	return true
}

// Type implements [backend.Backend].
func (Backend) Type() string { return Type }

// Extent implements [backend.Backend].
func (b Backend) Extent() dataplane.Extent {
	return dataplane.Extent{Policies: true, Passphrase: b.PSK}
}

// MTU implements [backend.Backend].
func (b Backend) MTU(env backend.Env) int {
	if b.encap {
		return env.Uplink.MTU - overheadUDP
	}
	return env.Uplink.MTU - overhead
}

// Attrs implements [backend.Backend].
func (Backend) Attrs(env backend.Env, _ lease.Attrs, _ *dataplane.State, _ *rand.Rand) (lease.Attrs, error) {
	return lease.Attrs{PublicIP: env.Uplink.PublicIP, BackendType: Type}, nil
}

// Notes implements [backend.Noter].
func (Backend) Notes(env backend.Env) []string {
	if env.Uplink.IP == env.Uplink.PublicIP {
		return nil
	}
	return []string{fmt.Sprintf("ipsec: the public address %s is not the one of %s, %s: "+
		"peers expect IKE from the public one, so translation of addresses on the way breaks the tunnels",
		env.Uplink.PublicIP, env.Uplink.Link, env.Uplink.IP)}
}

// Render implements [backend.Backend].
func (b Backend) Render(
	env backend.Env, self backend.Self, peers []*lease.Lease,
) (*dataplane.State, []backend.Problem) {
	state := dataplane.NewState()
	network := env.Config.Of(cidr.V4).Network
	state.AddPolicy(dataplane.Policy{
		PolicyKey: dataplane.PolicyKey{Dir: dataplane.PolicyOut, Src: network, Dst: network},
		Action:    dataplane.Block, Priority: dataplane.PriorityBlock,
	})
	state.Put(dataplane.IKEDaemon{Name: dataplane.Charon})
	own := self.Key.Of(cidr.V4)
	if !own.IsValid() { // packets of pods stay blocked
		return state, nil
	}
	state.AddPolicy(dataplane.Policy{
		PolicyKey: dataplane.PolicyKey{Dir: dataplane.PolicyOut, Src: network, Dst: own},
		Action:    dataplane.Allow, Priority: dataplane.PriorityAllow,
	})
	b.addKey(state, env.Uplink.IP)
	served, problems := backend.Peers(env, self, Type, cidr.V4, peers)
	for _, p := range served {
		conn := dataplane.ConnKey{Local: env.Uplink.IP, LocalNet: own, RemoteNet: p.Subnet, Remote: p.IP}
		addPolicies(state, conn)
		b.addKey(state, p.IP)
		state.Put(dataplane.Conn{ConnKey: conn, ESP: b.proposal, Encap: b.encap})
	}
	return state, problems
}

func (b Backend) addKey(state *dataplane.State, owner netip.Addr) {
	state.Put(dataplane.SharedKey{SharedKeyKey: dataplane.SharedKeyKey{Owner: owner}, Secret: b.PSK.Name()})
}

// addPolicies adds the policies of a peer (interop 6.6).
func addPolicies(state *dataplane.State, c dataplane.ConnKey) {
	add := func(dir dataplane.Direction, src, dst netip.Prefix, from, to netip.Addr) {
		state.AddPolicy(dataplane.Policy{
			PolicyKey: dataplane.PolicyKey{Dir: dir, Src: src, Dst: dst},
			Action:    dataplane.Protect, Priority: dataplane.PriorityPeer, From: from, To: to, ReqID: dataplane.ReqID,
		})
	}
	add(dataplane.PolicyOut, c.LocalNet, c.RemoteNet, c.Local, c.Remote)
	add(dataplane.PolicyIn, c.RemoteNet, c.LocalNet, c.Remote, c.Local)
	add(dataplane.PolicyForward, c.RemoteNet, c.LocalNet, c.Remote, c.Local)
}
