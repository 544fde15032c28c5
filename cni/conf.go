package cni

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/flanneld/flannel/core/cidr"
)

// The default paths, for a configuration without subnetFile and dataDir.
const (
	defaultSubnetFile = "/run/flannel/subnet.env"
	defaultDataDir    = "/var/lib/cni/flannel"
)

// conf is the plugin's own configuration.
type conf struct {
	CNIVersion    string         `json:"cniVersion"`
	Name          string         `json:"name"`
	SubnetFile    string         `json:"subnetFile"`
	DataDir       string         `json:"dataDir"`
	RuntimeConfig map[string]any `json:"runtimeConfig"`

	// Only a new attachment needs these. A mistake in them must not keep pods from being detached.
	Delegate json.RawMessage `json:"delegate"`
	IPAM     json.RawMessage `json:"ipam"`

	PrevResult map[string]any `json:"prevResult"`
	Valid      attachments    `json:"cni.dev/valid-attachments"`
	ValidToo   attachments    `json:"cni.dev/attachments"` // the name in the specification 1.1.0
}

// attachments are those that a runtime wants to keep. Null means none of them.
type attachments struct {
	given bool
	list  []types.GCAttachment
}

// UnmarshalJSON notes that the runtime gave a list.
func (a *attachments) UnmarshalJSON(text []byte) error {
	a.given = true
	return json.Unmarshal(text, &a.list)
}

// valid returns the attachments that still exist. Without a list there is nothing to
// collect: releasing the addresses of all pods because a runtime names none would be worse.
func (c conf) valid() ([]types.GCAttachment, error) {
	switch {
	case c.Valid.given:
		return c.Valid.list, nil
	case c.ValidToo.given:
		return c.ValidToo.list, nil
	}
	return nil, types.NewError(types.ErrInvalidNetworkConfig,
		"GC of network "+c.Name+" has no cni.dev/valid-attachments: nothing is released", "")
}

func parseConf(stdin []byte) (conf, error) {
	var c conf
	if err := json.Unmarshal(stdin, &c); err != nil {
		return conf{}, types.NewError(types.ErrDecodingFailure, "the configuration of plugin flannel", err.Error())
	}
	c.SubnetFile = cmp.Or(c.SubnetFile, defaultSubnetFile)
	c.DataDir = cmp.Or(c.DataDir, defaultDataDir)
	return c, nil
}

// Check returns an error if no pod can be attached with a configuration of this plugin.
func Check(text []byte) error {
	c, err := parseConf(text)
	if err == nil {
		_, err = c.delegated(subnetEnv{})
	}
	return err
}

// member decodes a member that is an object, if it is given.
func member(name string, text json.RawMessage) (map[string]any, error) {
	var object map[string]any
	if len(text) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "the configuration of plugin flannel", name+": "+err.Error())
	}
	return object, nil
}

// checkDelegate refuses members of delegate that this plugin sets itself.
func checkDelegate(delegate map[string]any) error {
	refuse := func(format string, args ...any) error {
		return types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf(format, args...), "")
	}
	if _, ok := delegate["name"]; ok {
		return refuse("delegate has a member name: remove it, the network's name is used")
	}
	if _, ok := delegate["ipam"]; ok {
		return refuse("delegate has a member ipam: put it beside delegate, not inside")
	}
	if kind, ok := delegate["type"]; ok {
		if name, ok := kind.(string); !ok || name == "" {
			return refuse("delegate.type is %v: want the name of a plugin", kind)
		}
	}
	return nil
}

// delegated returns the delegate's configuration: the member delegate, completed
// from the subnet file.
func (c conf) delegated(env subnetEnv) (map[string]any, error) {
	given, err := member("delegate", c.Delegate)
	if err == nil {
		err = checkDelegate(given)
	}
	if err != nil {
		return nil, err
	}
	d := map[string]any{"type": "bridge", "ipMasq": !env.ipMasq, "mtu": env.mtu}
	maps.Copy(d, given)
	if _, ok := d["isGateway"]; !ok && d["type"] == "bridge" {
		d["isGateway"] = true
	}
	d["name"] = c.Name
	if c.CNIVersion != "" {
		d["cniVersion"] = c.CNIVersion
	}
	if c.RuntimeConfig != nil {
		d["runtimeConfig"] = c.RuntimeConfig
	}
	d["ipam"], err = c.ipam(env)
	return d, err
}

// ipam returns the member ipam: addresses from the node's subnet, and routes to
// the networks.
func (c conf) ipam(env subnetEnv) (map[string]any, error) {
	given, err := member("ipam", c.IPAM)
	if err != nil {
		return nil, err
	}
	ipam := map[string]any{"type": "host-local"}
	maps.Copy(ipam, given)
	var ranges []any
	routes, err := givenRoutes(ipam["routes"])
	if err != nil {
		return nil, err
	}
	for _, f := range cidr.Families {
		if subnet := env.subnets[f]; subnet.IsValid() {
			ranges = append(ranges, []any{map[string]any{"subnet": subnet.Masked().String()}})
		}
		for _, network := range env.networks[f] {
			routes = append(routes, map[string]any{"dst": network.String()})
		}
	}
	ipam["ranges"], ipam["routes"] = ranges, routes
	return ipam, nil
}

func givenRoutes(given any) ([]any, error) {
	if given == nil {
		return nil, nil
	}
	routes, ok := given.([]any)
	if !ok {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, "ipam.routes is not a list", "")
	}
	return routes, nil
}

// encode returns the text that is kept, and that the delegate reads.
func encode(delegated map[string]any) ([]byte, error) {
	text, err := json.Marshal(delegated)
	if err != nil {
		return nil, types.NewError(types.ErrInternal, "encode the delegate's configuration", err.Error())
	}
	return text, nil
}
