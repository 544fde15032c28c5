package all

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/vxlan"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
)

func network(t *testing.T, text string) config.Network {
	t.Helper()
	n, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSpecs(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Specs() {
		if s.Type == "" || s.Type != strings.ToLower(s.Type) || s.Summary == "" || len(s.Carries) == 0 || seen[s.Type] {
			t.Errorf("spec is incomplete or a duplicate: %+v", s)
		}
		seen[s.Type] = true
		for _, o := range s.Options {
			if o.Name == "" || o.Help == "" || o.Ignored != (o.Default == "") {
				t.Errorf("%s: option is incomplete: %+v", s.Type, o)
			}
		}
	}
	if s, ok := Find(""); !ok || s.Type != Default {
		t.Errorf("default is %+v", s)
	}
}

// TestOpenEveryBackend opens each backend with its defaults and with the examples of its options.
func TestOpenEveryBackend(t *testing.T) {
	for _, s := range Specs() {
		configs := []string{s.Example()}
		for _, o := range s.Options {
			if o.Required && o.Example == "" {
				t.Errorf("%s: the required option %s has no example", s.Type, o.Name)
			}
			if o.Example != "" {
				configs = append(configs, s.Example(o))
			}
		}
		for _, c := range configs {
			b, err := New(network(t, `{"Network":"10.5.0.0/16","Backend":`+c+`}`))
			if err != nil || b.Type() != s.Type {
				t.Errorf("%s: %v, %v", c, b, err)
				continue
			}
			for _, link := range b.Extent().Links {
				if !s.NamesDevice(link) {
					t.Errorf("%s: %s is none of the devices %q", c, link, s.Devices)
				}
			}
		}
	}
}

func TestNamesDevice(t *testing.T) {
	for name, want := range map[string]bool{
		"flannel.1": true, "flannel-v6.16777215": true, "flannel0": true, "flannel-wg-v6": true, "flannel.ipip": true,
		"fl.1.8472": true, "fl6.16777215.65535": true, "fl.1": false, "fl.1.": false, "fl.1.70000": false, "fl.01.1": false,
		"fl.udp.8285": true, "fl.udp.": false, "fl.udp.70000": false,
		"flannel.": false, "flannel.01": false, "flannel.-1": false, "flannel.1x": false, "flannel1": false, "cni0": false,
	} {
		if got := NamesDevice(name); got != want {
			t.Errorf("%s: %t, want %t", name, got, want)
		}
	}
}

// A TUN device has no port that the kernel shows: its name says it.
func TestMakesDevice(t *testing.T) {
	vxlan := dataplane.VXLAN{VNI: 1, Port: 8472}
	for _, c := range []struct {
		l    dataplane.Link
		want bool
	}{
		{dataplane.Link{Name: "fl.udp.8285", Params: dataplane.TUN{}}, true},
		{dataplane.Link{Name: "fl.udp.x", Params: dataplane.TUN{}}, false},
		{dataplane.Link{Name: "fl.udp.8285", Params: vxlan}, false},
		{dataplane.Link{Name: "fl.1.8472", Params: vxlan}, true},
		{dataplane.Link{Name: "fl.1.4789", Params: vxlan}, false},
	} {
		if got := MakesDevice(c.l); got != c.want {
			t.Errorf("%s: %t, want %t", c.l, got, c.want)
		}
	}
}

func TestNewErrors(t *testing.T) {
	const dual = `"Network":"10.5.0.0/16","EnableIPv6":true,"IPv6Network":"fd00:10::/48"`
	for text, want := range map[string]string{
		`{"Network":"10.5.0.0/16","Backend":{"Type":"pigeon"}}`: `unknown backend type "pigeon"; known are ` +
			`vxlan, host-gw, udp, ipip, extension, alloc, wireguard, ipsec, gce, aws-vpc, ali-vpc, tencent-vpc`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"aws-vpc","RouteTableID":5}}`: `Backend RouteTableID 5: want ` +
			`a text or a list of texts`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"ali-vpc","AccessKeyID":7}}`: `Backend AccessKeyID: want a secret text`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"ipsec"}}`: `Backend PSK: ipsec needs a pre-shared key of at least ` +
			`96 characters`,
		`{` + dual + `,"Backend":{"Type":"ipsec"}}`: `backend type "ipsec" does not carry the families of this ` +
			`network (EnableIPv4 true, EnableIPv6 true); change them, or choose one of vxlan, host-gw, extension, alloc, ` +
			`wireguard`,
		`{` + dual + `,"Backend":{"Type":"ipip"}}`: `backend type "ipip" does not carry the families of this ` +
			`network (EnableIPv4 true, EnableIPv6 true); change them, or choose one of vxlan, host-gw, extension, alloc, ` +
			`wireguard`,
		// interop K8: a family that the backend does not carry is refused at once
		`{` + dual + `}`: `backend type "udp" does not carry the families of this network (EnableIPv4 true, EnableIPv6 ` +
			`true); change them, or choose one of vxlan, host-gw, extension, alloc, wireguard`,
		`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:10::/48"}`: `backend type "udp" does not carry the ` +
			`families of this network (EnableIPv4 false, EnableIPv6 true); change them, or choose one of vxlan, host-gw, ` +
			`alloc, wireguard`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","vni":0}}`: `Backend VNI 0: want a whole number from 1 ` +
			`to 16777215`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","GBP":"on"}}`: `Backend GBP "on": want true or false`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","MTU":100}}`: `Backend MTU 100: want 0 or a whole number ` +
			`from 576 to 65535`,
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","Name":{"a":1}}}`: ``,
	} {
		got := ""
		if _, err := New(network(t, text)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestWarnings(t *testing.T) {
	for text, want := range map[string][]string{
		`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","MacPrefix":"0E-2A"}}`: nil,
		`{"Network":"10.5.0.0/16","network":"10.6.0.0/16","Colour":"red",` +
			`"Backend":{"Type":"vxlan","VNI":1,"vni":2,"VNI":3,"Prot":1},"Formerly":[{"Type":"udp","VNI":1}]}`: {
			`member "network" is given more than once, and only the last value counts`,
			`Backend member "vni" is given more than once, and only the last value counts`,
			`member "Colour" is unknown and ignored`,
			`Backend member "Prot" is unknown to vxlan and ignored`,
			`Formerly[0] member "VNI" is unknown to udp and ignored`,
		},
	} {
		if d := cmp.Diff(want, Warnings(network(t, text))); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
}

// TestLastValueCounts expects the config to override defaults, and the second of
// two equal members to override the first.
func TestLastValueCounts(t *testing.T) {
	b, err := New(network(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":5,"vni":7}}`))
	if err != nil {
		t.Fatal(err)
	}
	if links := b.Extent().Links; !slices.Equal(links, []string{"flannel.7", "flannel-v6.7"}) {
		t.Errorf("links %v", links)
	}
}

func TestWants(t *testing.T) {
	if got := (backend.Option{Kind: backend.Text}).Wants(); got != "a text" {
		t.Error(got)
	}
}

// The ports are those of the config, with the backend's own values for what it leaves out.
func TestPorts(t *testing.T) {
	const v6 = `"EnableIPv6":true,"IPv6Network":"fd00::/48",`
	for _, c := range []struct {
		more, backend string
		want          []uint16
	}{
		{"", `{"Type":"vxlan"}`, []uint16{8472}},
		{"", `{"Type":"vxlan","Port":0}`, []uint16{8472}},
		{"", `{"Type":"vxlan","port":4789}`, []uint16{4789}},
		{"", `{"Type":"udp"}`, []uint16{8285}},
		{"", `{"Type":"udp","Port":8473}`, []uint16{8473}},
		{"", `{"Type":"wireguard"}`, []uint16{51820}},
		{v6, `{"Type":"wireguard","ListenPort":51900}`, []uint16{51900, 51821}},
		{"", `{"Type":"ipsec"}`, []uint16{500, 4500}},
		{"", `{"Type":"host-gw"}`, nil},
	} {
		n := network(t, `{`+c.more+`"Network":"10.5.0.0/16","Backend":`+c.backend+`}`)
		spec, _ := Find(n.Backend.Type)
		var got []uint16
		for _, p := range spec.Ports(n) {
			got = append(got, p.Number)
			if p.Shared != (spec.Type == vxlan.Type) {
				t.Errorf("%s: port %d is shared: %t", c.backend, p.Number, p.Shared)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: ports %d, want %d", c.backend, got, c.want)
		}
	}
}
