package backends

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
)

// offering returns a set of three backends, and attributes that offer all of them.
func offering(t *testing.T) (*Set, lease.Attrs) {
	t.Helper()
	s := opened(t, true, vxlan7, vxlan, hostGW)
	f := formerly(vxlan)
	f.Data, f.V6Data = json.RawMessage(vtep(1, 1)), json.RawMessage(vtep(1, 1))
	w := lease.Ways{Former: []lease.FormerWay{f, formerly(hostGW)}}
	return s, record(1, "vxlan", vtep(7, 1), w).Attrs
}

// The parts of the wire form of such a record.
const (
	addresses = `{"PublicIP":"192.168.64.1","PublicIPv6":"fd00:64::1","BackendType":`
	data1     = `"BackendData":` + vtep1 + `,"BackendV6Data":` + vtep1
	data7     = `"BackendData":` + vtep7 + `,"BackendV6Data":` + vtep7
	vtep1     = `{"VNI":1,"VtepMAC":"02:00:00:00:00:01"}`
	vtep7     = `{"VNI":7,"VtepMAC":"02:00:00:00:00:01"}`
)

// in asks whether an identity is in a list.
func in(list []string) func(string) bool {
	return func(id string) bool { return slices.Contains(list, id) }
}

// A node publishes the backends that are ready and do not end, with the data of each.
func TestPublish(t *testing.T) {
	s, a := offering(t)
	for _, c := range []struct {
		what          string
		ready, ending []string
		want          string
	}{
		{"all", []string{vxlan7, vxlan, hostGW}, nil, text(a)},
		{"none", nil, nil, text(a)},
		{"the present one", []string{vxlan7}, nil, addresses + `"vxlan",` + data7 + `}`},
		{"a previous one", []string{vxlan}, nil, addresses + `"vxlan",` + data1 + `}`},
		{"the last one", []string{hostGW}, nil, addresses + `"host-gw"}`},
		{"one that ends", []string{vxlan7, vxlan}, []string{vxlan}, addresses + `"vxlan",` + data7 + `}`},
		{"nothing but one that ends", []string{vxlan}, []string{vxlan}, addresses + `"vxlan",` + data1 + `}`},
	} {
		if got := text(s.ending(c.ending...).Publish(a, in(c.ready))); got != c.want {
			t.Errorf("%s ready: %s, want %s", c.what, got, c.want)
		}
	}
	no := func(string) bool { return false }
	other := record(1, "udp", "", lease.Ways{}).Attrs
	if got := s.Publish(other, no); !got.Equal(other) {
		t.Errorf("attributes without any of the backends become %s", text(got))
	}
	if got := opened(t, true, vxlan).Publish(a, no); !got.Equal(a) {
		t.Errorf("with one backend, attributes become %s", text(got))
	}
}

// A node announces a backend that needs an exchange of keys before it offers it, if a plain one carries packets
// meanwhile. Peers take the announced key, and do not send by that backend.
func TestPreparing(t *testing.T) {
	s := opened(t, false, wireguard, vxlan)
	own := record(1, "wireguard", "", lease.Ways{Former: []lease.FormerWay{{
		Backend: json.RawMessage(vxlan), Data: json.RawMessage(vtep(1, 1))}}}).Attrs
	own.BackendData = json.RawMessage(wgPort(51820))
	before := record(1, "vxlan", "", lease.Ways{}).Attrs
	if !s.Prepares(&before) || s.Prepares(&own) || s.Announces(&before) {
		t.Error("a node prepares wireguard while its record offers vxlan alone")
	}
	if opened(t, false, hostGW, vxlan).Prepares(&before) || opened(t, true, wgAuto, wireguard).Prepares(&own) {
		t.Error("host-gw and another mode of wireguard need no preparation")
	}
	a := s.in(Role{Announced: true}, s.Present()).Publish(own, in([]string{wireguard, vxlan}))
	if Offers(&a, wireguard) || !Offers(&a, vxlan) || !s.Announces(&a) {
		t.Fatalf("announces %s", text(a))
	}
	peer := &lease.Lease{Key: record(2, "", "", lease.Ways{}).Key, Attrs: a}
	if face := s.faceOf(0, peer); !s.accepts(0, peer) || string(face.Attrs.BackendData) != wgPort(51820) {
		t.Errorf("wireguard accepts the peer as %s", text(face.Attrs))
	}
	if i, ok := s.choose(peer, cidr.V4); !ok || i != 1 {
		t.Errorf("backend %d (%t), want vxlan", i, ok)
	}
	if keys := s.PublishedKeys(&a); len(keys) != 1 {
		t.Errorf("keys %v", keys)
	}
}

// The record names the present backend if that does not follow from its data.
func TestComposeNamesThePresentBackend(t *testing.T) {
	for options, want := range map[string]string{
		vxlan7: "", `{"Type":"vxlan","VNI":7,"Port":4789}`: `{"Type":"vxlan","VNI":7,"Port":4789}`, `{"Type":"alloc"}`: "",
	} {
		s := opened(t, true, options)
		kind := s.members[0].publishedType()
		a := compose([]face{{member: s.members[0], attrs: record(1, kind, vtep(7, 1), lease.Ways{}).Attrs}})
		if got := string(a.Ways.Present); got != want {
			t.Errorf("%s: the record names %q, want %q", options, got, want)
		}
	}
}

// Each backend finds its own data among the stored ones. The present backend takes those of its
// type, unless they belong to another backend.
func TestStoredFor(t *testing.T) {
	s, a := offering(t)
	previous := record(1, "vxlan", vtep(1, 1), lease.Ways{}).Attrs
	strange := record(1, "vxlan", vtep(9, 1), lease.Ways{}).Attrs
	named := strange
	named.Ways.Present = json.RawMessage(`{"Type":"vxlan","VNI":9}`)
	withWays := strange
	withWays.Ways.Former = []lease.FormerWay{formerly(udp)}
	for _, c := range []struct {
		what   string
		stored lease.Attrs
		want   [3]string
	}{
		{"all backends", a, [3]string{addresses + `"vxlan",` + data7 + `}`, addresses + `"vxlan",` + data1 + `}`,
			addresses + `"host-gw"}`}},
		{"a previous backend alone", previous, [3]string{text(lease.Attrs{}), text(previous), text(lease.Attrs{})}},
		{"none of the backends", strange, [3]string{text(strange), text(lease.Attrs{}), text(lease.Attrs{})}},
		{"another backend by name", named, [3]string{text(lease.Attrs{}), text(lease.Attrs{}), text(lease.Attrs{})}},
		{"none, and previous ones", withWays, [3]string{text(strange), text(lease.Attrs{}), text(lease.Attrs{})}},
		{"another type", record(1, "udp", "", lease.Ways{}).Attrs,
			[3]string{text(lease.Attrs{}), text(lease.Attrs{}), text(lease.Attrs{})}},
	} {
		for i, want := range c.want {
			if got := text(s.storedFor(i, c.stored)); got != want {
				t.Errorf("%s: %s finds %s, want %s", c.what, s.members[i].id, got, want)
			}
		}
	}
}
