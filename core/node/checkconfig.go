package node

import (
	"fmt"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/backend/ways"
	"github.com/flanneld/flannel/core/config"
)

// CheckConfig reads a network config as a node does, and returns it parsed, with the
// warnings or the error that the node logs. Assigned means that the datastore assigns
// the subnets, as Kubernetes does.
func CheckConfig(data []byte, assigned bool) (config.Network, []string, error) {
	network, _, err := checkConfig(data, assigned)
	if err != nil {
		return config.Network{}, nil, err
	}
	return network, warnings(network), nil
}

// unserved is the error of a valid config whose backend this build cannot run as the
// config asks.
type unserved struct{ error }

// checkConfig parses a config and opens its backend, beside the former ones.
func checkConfig(data []byte, assigned bool, former ...config.Backend) (config.Network, *ways.Set, error) {
	parse := config.Parse
	if assigned {
		parse = config.ParseAssigned
	}
	network, err := parse(data)
	if err != nil {
		return config.Network{}, nil, fmt.Errorf("network config: %w", err)
	}
	if err := ways.CheckFormerly(network); err != nil {
		return config.Network{}, nil, fmt.Errorf("network config: %w", err)
	}
	set, err := ways.New(network, former...)
	if err != nil {
		return config.Network{}, nil, fmt.Errorf("network config: %w", unserved{err})
	}
	return network, set, nil
}

// warnings returns a sentence for each member of a config that has no effect.
func warnings(network config.Network) []string {
	var list []string
	for _, w := range all.Warnings(network) {
		list = append(list, "network config: "+w)
	}
	return list
}
