package cloud

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
)

// The backends' names in configs. Leases carry none (interop 3.3).
const (
	GCE     = "gce"
	AWS     = "aws-vpc"
	Ali     = "ali-vpc"
	Tencent = "tencent-vpc"
)

// Specs describes the four backends and their options (interop 6.9).
func Specs() []backend.Spec {
	return []backend.Spec{
		spec(dataplane.Provider{Name: GCE}, "routes of the project's network at Google", nil),
		spec(dataplane.Provider{Name: AWS, Sweeps: true}, "routes in the tables of an Amazon VPC", readTables, backend.Option{
			Name: "RouteTableID", Kind: backend.Texts, Default: `""`, Example: `["rtb-1","rtb-2"]`,
			Help: "ids of the route tables; by default that of the instance's subnet, or else the main one of the VPC",
		}),
		spec(dataplane.Provider{Name: Ali}, "routes in the table of an Alibaba VPC", readKeys, keys()...),
		spec(dataplane.Provider{Name: Tencent}, "routes in the table of a Tencent VPC", readKeys, keys()...),
	}
}

// keys returns the options of providers whose instances have no credentials of their own.
func keys() []backend.Option {
	return []backend.Option{
		{Name: "AccessKeyID", Kind: backend.Passphrase, Default: `""`,
			Help: "id of the access key; by default that of the environment, ACCESS_KEY_ID"},
		{Name: "AccessKeySecret", Kind: backend.Passphrase, Default: `""`,
			Help: "its secret; by default that of the environment, ACCESS_KEY_SECRET"},
	}
}

// reader reads options into what a driver needs to know of the provider.
type reader func(options json.RawMessage, p *dataplane.Provider) error

func spec(p dataplane.Provider, summary string, read reader, options ...backend.Option) backend.Spec {
	return backend.Spec{
		Type: p.Name, Summary: summary, Carries: []backend.Families{backend.IPv4Only}, Options: options,
		Lanes: []string{"cloud"}, IgnoresPeers: true, Untyped: true,
		New: func(network config.Network) (backend.Backend, error) {
			opened := p
			if read == nil {
				return Backend{opened}, nil
			}
			if err := read(network.Backend.Options, &opened); err != nil {
				return nil, err
			}
			return Backend{opened}, nil
		},
	}
}

// Backend renders the route of the own subnet. It is immutable.
type Backend struct {
	// Provider is exported, for package fmt ignores the methods of other fields and
	// would print the credentials.
	Provider dataplane.Provider
}

var _ backend.Backend = Backend{}

func readTables(options json.RawMessage, p *dataplane.Provider) error {
	var o struct{ RouteTableID texts }
	if err := json.Unmarshal(options, &o); err != nil {
		return fmt.Errorf("options of %s: %w", p.Name, err)
	}
	for i, id := range o.RouteTableID {
		switch {
		case id == "" || strings.ContainsFunc(id, odd):
			return fmt.Errorf("Backend RouteTableID %q: want the id of a route table, such as rtb-0a1b2c3d", id)
		case slices.Contains(o.RouteTableID[:i], id):
			return fmt.Errorf("Backend RouteTableID %q: is given twice", id)
		}
	}
	p.Tables = o.RouteTableID
	return nil
}

func readKeys(options json.RawMessage, p *dataplane.Provider) error {
	var o struct{ AccessKeyID, AccessKeySecret string }
	if err := json.Unmarshal(options, &o); err != nil {
		return fmt.Errorf("options of %s: cannot be read", p.Name) // the error may quote a secret
	}
	if (o.AccessKeyID == "") != (o.AccessKeySecret == "") {
		return errors.New("Backend AccessKeyID and AccessKeySecret: want both or none")
	}
	p.KeyID, p.KeySecret = dataplane.NewPassphrase(o.AccessKeyID), dataplane.NewPassphrase(o.AccessKeySecret)
	return nil
}

// odd reports whether a character cannot be in the id of a table.
func odd(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }

// texts reads a text or a list of them. An empty text is none.
type texts []string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) != nil {
		return json.Unmarshal(data, (*[]string)(t))
	}
	*t = nil
	if one != "" {
		*t = texts{one}
	}
	return nil
}

// Type implements [backend.Backend].
func (b Backend) Type() string { return b.Provider.Name }

// Extent implements [backend.Backend].
func (b Backend) Extent() dataplane.Extent { return dataplane.Extent{Provider: b.Provider} }

// MTU implements [backend.Backend].
func (Backend) MTU(env backend.Env) int { return env.Uplink.MTU }

// Attrs implements [backend.Backend].
func (Backend) Attrs(env backend.Env, _ lease.Attrs, _ *dataplane.State, _ *rand.Rand) (lease.Attrs, error) {
	return lease.Attrs{PublicIP: env.Uplink.PublicIP}, nil
}

// Render implements [backend.Backend]: the route of the own subnet, in each table.
func (Backend) Render(_ backend.Env, self backend.Self, _ []*lease.Lease) (*dataplane.State, []backend.Problem) {
	state := dataplane.NewState()
	if own := self.Key.V4; own.IsValid() {
		state.AddCloudRoute(dataplane.CloudRoute{CloudRouteKey: dataplane.CloudRouteKey{Dst: own}, Self: true})
	}
	return state, nil
}
