package node

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/config"
)

// CheckConfig reads a network config as a node does, and returns it parsed, with the
// warnings or the error that the node logs. Assigned means that the datastore assigns
// the subnets, as Kubernetes does.
func CheckConfig(data []byte, assigned bool) (config.Network, []string, error) {
	none := func(config.Network) []config.Backend { return nil }
	network, _, err := checkConfig(data, assigned, none)
	if err != nil {
		return config.Network{}, nil, err
	}
	return network, warnings(network), nil
}

// unserved is the error of a valid config whose backend this build cannot run as the
// config asks.
type unserved struct{ error }

// checkConfig parses a config and opens its backend, beside the former ones.
func checkConfig(
	data []byte, assigned bool, former func(config.Network) []config.Backend,
) (config.Network, *backends.Set, error) {
	parse := config.Parse
	if assigned {
		parse = config.ParseAssigned
	}
	network, err := parse(data)
	if err != nil {
		return config.Network{}, nil, fmt.Errorf("network config: %w", err)
	}
	if _, err := backends.Formerly(network); err != nil {
		return config.Network{}, nil, fmt.Errorf("network config: %w", err)
	}
	set, err := backends.New(network, former(network)...)
	if err != nil {
		return config.Network{}, nil, fmt.Errorf("network config: %w", unserved{err})
	}
	return network, set, nil
}

// CheckCommands returns an error if a network config of a datastore that any program may write holds commands for its
// nodes. A config that no node accepts holds none.
func CheckCommands(data []byte) error {
	network, err := config.Parse(data)
	if err != nil {
		return nil
	}
	return checkTrust(network, false)
}

// errCommands is the reason to refuse a config that holds commands.
var errCommands = errors.New("it runs commands as root, and any program that reaches the datastore may write this " +
	"config: protect the datastore by client certificates or a password, or start flanneld with --allow-extension")

// checkTrust returns an error if a config holds commands for this host, unless its writers are trusted.
func checkTrust(network config.Network, trusted bool) error {
	if trusted {
		return nil
	}
	for i, object := range append([]config.Backend{network.Backend}, network.Formerly...) {
		where := "Backend"
		if i > 0 {
			where = fmt.Sprintf("Formerly[%d]", i-1)
		}
		if spec, _ := all.Find(object.Type); slices.Contains(spec.Lanes, CommandsLane.String()) {
			return fmt.Errorf("network config: %s %s is refused: %w", where, spec.Type, errCommands)
		}
	}
	return nil
}

// warnings returns a sentence for each member of a config that has no effect.
func warnings(network config.Network) []string {
	var list []string
	for _, w := range all.Warnings(network) {
		list = append(list, "network config: "+w)
	}
	return list
}
