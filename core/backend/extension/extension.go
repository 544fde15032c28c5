package extension

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// Type is the backend's name in configs and leases.
const Type = "extension"

// maxOutput is the longest output of PreStartupCommand in bytes: it becomes part
// of a record that every node reads.
const maxOutput = 64 << 10

// Spec describes the backend and its options (interop 6.8).
func Spec() backend.Spec {
	text := func(name, help string) backend.Option {
		return backend.Option{Name: name, Kind: backend.Text, Default: `""`, Help: help}
	}
	return backend.Spec{
		Type: Type, Summary: "the operator's own commands",
		Carries: []backend.Families{backend.IPv4Only, backend.Both}, New: open,
		Lanes: []string{"commands"}, OwnAddresses: true, SharesData: true, Alone: true, Needs: "/bin/sh",
		Options: []backend.Option{
			text("PreStartupCommand", "runs at each start, before the node asks for a lease; its output becomes BackendData"),
			text("PostStartupCommand", "runs once the node holds a lease"),
			text("SubnetAddCommand", "runs for each peer that comes or changes"),
			text("SubnetRemoveCommand", "runs for each peer that goes, with its former data before it changes"),
			text("ShutdownCommand", "runs at an orderly stop"),
			{Name: "CommandTimeout", Kind: backend.Whole, Min: 1, Max: 3600, Default: "30",
				Help: "seconds after which a command is killed with its children"},
			{Name: "ResyncPeriod", Kind: backend.Whole, Min: 1, Max: 86400, Zero: "never", Default: "0",
				Help: "seconds after which SubnetAddCommand runs again for a peer"},
		},
	}
}

// Backend renders the commands. It is immutable.
type Backend struct {
	PreStartupCommand   string
	PostStartupCommand  string
	SubnetAddCommand    string
	SubnetRemoveCommand string
	ShutdownCommand     string
	CommandTimeout      int
	ResyncPeriod        int
}

var (
	_ backend.Backend   = Backend{}
	_ backend.Commander = Backend{}
)

func open(network config.Network) (backend.Backend, error) {
	var b Backend
	if err := json.Unmarshal(network.Backend.Options, &b); err != nil {
		return nil, fmt.Errorf("options of %s: %w", Type, err)
	}
	for _, c := range []struct{ name, text string }{
		{"PreStartupCommand", b.PreStartupCommand},
		{"PostStartupCommand", b.PostStartupCommand},
		{"SubnetAddCommand", b.SubnetAddCommand},
		{"SubnetRemoveCommand", b.SubnetRemoveCommand},
		{"ShutdownCommand", b.ShutdownCommand},
	} {
		if strings.ContainsRune(c.text, 0) {
			return nil, fmt.Errorf("Backend %s: a command holds no NUL character", c.name)
		}
	}
	return b, nil
}

// Type implements [backend.Backend].
func (Backend) Type() string { return Type }

// Extent implements [backend.Backend]: it is empty, since commands make the host's objects.
func (Backend) Extent() dataplane.Extent { return dataplane.Extent{} }

// MTU implements [backend.Backend].
func (Backend) MTU(env backend.Env) int { return env.Uplink.MTU }

// Attrs implements [backend.Backend]. BackendData is the output of
// PreStartupCommand as a JSON string (interop 3.3), or absent without one.
func (b Backend) Attrs(env backend.Env, _ lease.Attrs, _ *dataplane.State, _ *rand.Rand) (lease.Attrs, error) {
	attrs := lease.Attrs{PublicIP: env.Uplink.PublicIP, PublicIPv6: env.Uplink.PublicIPv6, BackendType: Type}
	if b.PreStartupCommand == "" {
		return attrs, nil
	}
	ran, known := env.Commands.Get(dataplane.CommandKey{Stage: dataplane.PreStartup})
	switch {
	case !known || !ran.InForce(b.preStartup()):
		return lease.Attrs{}, backend.NotYet{Err: errors.New("PreStartupCommand has not succeeded yet")}
	case len(ran.Output) > maxOutput:
		return lease.Attrs{}, backend.NotYet{Err: fmt.Errorf(
			"PreStartupCommand wrote %d bytes; as BackendData they may be at most %d", len(ran.Output), maxOutput)}
	}
	data, err := json.Marshal(ran.Output)
	if err != nil {
		return lease.Attrs{}, fmt.Errorf("the output of PreStartupCommand: %w", err)
	}
	attrs.BackendData = data
	return attrs, nil
}

// Prepare implements [backend.Commander].
func (b Backend) Prepare() *dataplane.State {
	state := dataplane.NewState()
	if b.PreStartupCommand != "" || b.ShutdownCommand != "" {
		state.AddCommand(b.preStartup())
	}
	return state
}

// Undo implements [backend.Commander].
func (b Backend) Undo() string { return b.SubnetRemoveCommand }

// Mentions implements [backend.Commander].
func (b Backend) Mentions(device string) bool {
	startup := dataplane.Command{Text: b.PreStartupCommand, Undo: b.ShutdownCommand}
	withLease := dataplane.Command{Text: b.PostStartupCommand}
	peers := dataplane.Command{Text: b.SubnetAddCommand, Undo: b.SubnetRemoveCommand}
	return startup.Mentions(device) || withLease.Mentions(device) || peers.Mentions(device)
}

// Render implements [backend.Backend].
func (b Backend) Render(
	env backend.Env, self backend.Self, peers []*lease.Lease,
) (*dataplane.State, []backend.Problem) {
	state := b.Prepare()
	if own := self.Key.V4; b.PostStartupCommand != "" && own.IsValid() {
		state.AddCommand(dataplane.Command{
			CommandKey: dataplane.CommandKey{Stage: dataplane.PostStartup},
			Text:       b.PostStartupCommand,
			Env:        fmt.Sprintf("NETWORK=%s %s", env.Config.V4.Network, environment(self.Key, self.Attrs)),
			Input:      "\n",
			Limit:      b.limit(),
		})
	}
	served, problems := backend.Peers(env, self, Type, cidr.V4, peers)
	_, problemsV6 := backend.Peers(env, self, Type, cidr.V6, peers)
	refusedV6 := map[lease.Key]bool{}
	for _, p := range problemsV6 {
		refusedV6[p.Key] = true
	}
	for _, p := range served {
		if refusedV6[p.Key] {
			continue // its subnet or address of IPv6 would reach the command
		}
		command, err := b.peer(p, fmt.Sprintf("%s %s", env.Uplink.Link, env.Uplink.IP))
		if err != nil {
			problems = append(problems, backend.Problem{Key: p.Key, Err: err})
			continue
		}
		if command.Text != "" || command.Undo != "" {
			state.AddCommand(command)
		}
	}
	return state, append(problems, problemsV6...)
}

func (b Backend) limit() time.Duration { return time.Duration(b.CommandTimeout) * time.Second }

// preStartup returns the command that an orderly stop undoes.
func (b Backend) preStartup() dataplane.Command {
	return dataplane.Command{
		CommandKey: dataplane.CommandKey{Stage: dataplane.PreStartup},
		Text:       b.PreStartupCommand, Undo: b.ShutdownCommand, Input: "\n", Limit: b.limit(),
	}
}

// peer returns the command for a peer of a node with that interface and address.
// Without the address the kernel drops routes, so another one is a reason to run again.
func (b Backend) peer(p backend.Peer, on string) (dataplane.Command, error) {
	data := ""
	if raw := p.Lease.Attrs.BackendData; len(raw) > 0 && json.Unmarshal(raw, &data) != nil {
		return dataplane.Command{}, fmt.Errorf("its BackendData is not a JSON string")
	}
	return dataplane.Command{
		CommandKey: dataplane.CommandKey{Stage: dataplane.ForPeer, Subnet: p.Subnet},
		Text:       b.SubnetAddCommand, Undo: b.SubnetRemoveCommand,
		Env:   environment(p.Key, p.Lease.Attrs),
		Input: data + "\n",
		Limit: b.limit(), Every: time.Duration(b.ResyncPeriod) * time.Second,
		On: on,
	}, nil
}

// environment renders a record's addresses. Absent ones read as upstream has
// them, which are the texts of zero values in Go (interop 6.8).
func environment(key lease.Key, attrs lease.Attrs) string {
	network := func(p netip.Prefix) string {
		if !p.IsValid() {
			return "::/0"
		}
		return p.String()
	}
	address := func(a netip.Addr) string {
		if !a.IsValid() {
			return "<nil>"
		}
		return a.WithZone("").String() // a zone may hold any character
	}
	return fmt.Sprintf("SUBNET=%s IPV6SUBNET=%s PUBLIC_IP=%s PUBLIC_IPV6=%s",
		network(key.V4), network(key.V6), address(attrs.PublicIP), address(attrs.PublicIPv6))
}
