package cloud

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

// opened opens a backend with these members of the config's Backend object.
func opened(t *testing.T, name, members string) (Backend, error) {
	t.Helper()
	network, err := config.Parse([]byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"` + name + `"` + members + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Specs() {
		if s.Type == name {
			b, err := s.Open(network)
			opened, _ := b.(Backend)
			return opened, err
		}
	}
	t.Fatalf("no backend %s", name)
	return Backend{}, nil
}

// The attributes are those of the contract, without a type (interop 3.3), and the pods' MTU is the
// uplink's. The rendering is the route of the own subnet, whatever peers there are.
func TestPublishesAndRenders(t *testing.T) {
	env := backend.Env{Uplink: uplink.Uplink{Link: "eth0", MTU: 8951, PublicIP: netip.MustParseAddr("192.168.64.3"),
		PublicIPv6: netip.MustParseAddr("fd00:a::3")}}
	for _, s := range Specs() {
		b, err := opened(t, s.Type, "")
		if err != nil || b.Type() != s.Type {
			t.Fatalf("%s: %v, %v", s.Type, b, err)
		}
		a, err := b.Attrs(env, lease.Attrs{BackendType: "vxlan"}, dataplane.NewState(), nil)
		if got := string(lease.EncodeAttrs(a)); got != `{"PublicIP":"192.168.64.3","PublicIPv6":null}` || err != nil {
			t.Errorf("%s: %s, %v", s.Type, got, err)
		}
		key, err := lease.ParseKey("10.5.34.0-24")
		if err != nil {
			t.Fatal(err)
		}
		state, problems := b.Render(env, backend.Self{Key: key, Attrs: a}, []*lease.Lease{{}})
		if d := cmp.Diff("cloud-route 10.5.34.0/24 self\n", state.Dump()); d != "" || problems != nil {
			t.Errorf("%s: problems %v, state (-want +got):\n%s", s.Type, problems, d)
		}
		if none, _ := b.Render(env, backend.Self{}, nil); none.Len() != 0 || b.MTU(env) != 8951 {
			t.Errorf("%s: without a subnet %s, MTU %d", s.Type, none.Dump(), b.MTU(env))
		}
		if !s.IgnoresPeers || !s.Untyped || s.CarriesNothing || b.Provider.Sweeps != (s.Type == AWS) {
			t.Errorf("spec %+v", s)
		}
	}
}

func TestTables(t *testing.T) {
	for text, want := range map[string][]string{
		``:                                nil,
		`,"RouteTableID":""`:              nil,
		`,"RouteTableID":null`:            nil,
		`,"RouteTableID":[]`:              {},
		`,"RouteTableID":"rtb-1"`:         {"rtb-1"},
		`,"routetableid":["rtb-2","a"]`:   {"rtb-2", "a"},
		`,"AccessKeyID":5,"Colour":"red"`: nil, // of another provider
	} {
		b, err := opened(t, AWS, text)
		if d := cmp.Diff(want, b.Provider.Tables); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, d)
		}
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, members, want string }{
		{AWS, `,"RouteTableID":{}`, `Backend RouteTableID {}: want a text or a list of texts`},
		{AWS, `,"RouteTableID":[1]`, `Backend RouteTableID [1]: want a text or a list of texts`},
		{AWS, `,"RouteTableID":["rtb-1",""]`, `Backend RouteTableID "": want the id of a route table, such as rtb-0a1b2c3d`},
		{AWS, `,"RouteTableID":"rtb 1"`, `Backend RouteTableID "rtb 1": want the id of a route table, such as rtb-0a1b2c3d`},
		{AWS, `,"RouteTableID":["a","b","a"]`, `Backend RouteTableID "a": is given twice`},
		{Ali, `,"AccessKeyID":"id-7f3a"`, `Backend AccessKeyID and AccessKeySecret: want both or none`},
		{Tencent, `,"AccessKeySecret":"secret-7f3a"`, `Backend AccessKeyID and AccessKeySecret: want both or none`},
		{Tencent, `,"AccessKeySecret":["secret-7f3a"]`, `Backend AccessKeySecret: want a secret text`},
	} {
		if _, err := opened(t, c.name, c.members); err == nil || err.Error() != c.want {
			t.Errorf("%s%s:\n got %v\nwant %s", c.name, c.members, err, c.want)
		}
	}
}

// Nothing that holds the credentials shows them.
func TestCredentialsStayHidden(t *testing.T) {
	const members = `,"AccessKeyID":"id-7f3a","AccessKeySecret":"secret-7f3a"`
	b, err := opened(t, Ali, members)
	if err != nil {
		t.Fatal(err)
	}
	if b.Provider.KeyID.Reveal() != "id-7f3a" || b.Provider.KeySecret.Reveal() != "secret-7f3a" {
		t.Error("the driver cannot learn the credentials")
	}
	state, _ := b.Render(backend.Env{}, backend.Self{}, nil)
	for _, s := range Specs() {
		if s.Type == Ali {
			network, err := config.Parse([]byte(`{"Network":"10.5.0.0/16","Backend":{"Type":"ali-vpc"` + members + `}}`))
			if err != nil {
				t.Fatal(err)
			}
			id, err := s.Identity(network.Backend, backend.IPv4Only)
			if err != nil || strings.Contains(id, "7f3a") {
				t.Errorf("identity %s, %v", id, err)
			}
		}
	}
	text := fmt.Sprintf("%v %+v %#v %v %+v %v", b, b, b, b.Extent(), b.Extent(), state)
	if strings.Contains(text, "7f3a") {
		t.Errorf("shown: %s", text)
	}
}

// FuzzOpen opens backends with any options.
func FuzzOpen(f *testing.F) {
	f.Add(`{"RouteTableID":["rtb-1","rtb-2"],"AccessKeyID":"a","AccessKeySecret":"b"}`)
	f.Add(`{"RouteTableID":"rtb-1","routetableid":null}`)
	f.Add(`{"RouteTableID":[null]}`)
	f.Fuzz(func(t *testing.T, options string) {
		network, err := config.Parse([]byte(`{"Network":"10.5.0.0/16"}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range Specs() {
			network.Backend = config.Backend{Type: s.Type, Options: []byte(options)}
			b, err := s.Open(network)
			if err != nil {
				continue
			}
			for _, table := range b.Extent().Provider.Tables {
				if table == "" || strings.ContainsAny(table, " \"\n") {
					t.Errorf("table %q", table)
				}
			}
		}
	})
}
