package dataplane

import (
	"strings"
	"testing"
	"time"
)

// TestAddAndPutAgree fills a state in both ways and in different orders.
func TestAddAndPutAgree(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(everyKind), "\n")
	put, added := NewState(), NewState()
	for i, line := range lines {
		o, err := ParseObject(line)
		if err != nil {
			t.Fatal(err)
		}
		put.Put(o)
		o, err = ParseObject(lines[len(lines)-1-i])
		if err != nil {
			t.Fatal(err)
		}
		switch o := o.(type) {
		case Link:
			added.AddLink(o)
		case Addr:
			added.AddAddr(o)
		case Route:
			added.AddRoute(o)
		case Neigh:
			added.AddNeigh(o)
		case FDBEntry:
			added.AddFDB(o)
		case Sysctl:
			added.AddSysctl(o)
		case Chain:
			added.AddChain(o)
		case Proxy:
			added.AddProxy(o)
		case Peer:
			added.AddPeer(o)
		case WGPeer:
			added.AddWGPeer(o)
		case Policy:
			added.AddPolicy(o)
		default:
			added.Put(o)
		}
	}
	if put.Dump() != added.Dump() {
		t.Errorf("put:\n%s\nadded:\n%s", put.Dump(), added.Dump())
	}
	if put.Len() != len(lines) || added.Len() != len(lines) {
		t.Errorf("%d and %d objects, want %d", put.Len(), added.Len(), len(lines))
	}
}

// TestEqual leaves each object of a state out of a second one in turn.
func TestEqual(t *testing.T) {
	full, err := ParseDump(everyKind)
	if err != nil {
		t.Fatal(err)
	}
	running := map[string]Running{"flannel0": {Tier: "gso", Drops: map[string]uint64{"ttl": 1}}}
	full.Running = running
	lines := strings.SplitAfter(strings.TrimSpace(everyKind), "\n")
	for left := range len(lines) + 1 {
		other := NewState()
		other.Running = map[string]Running{"flannel0": {Tier: "gso", Drops: map[string]uint64{"ttl": 1}}}
		for i, line := range lines {
			o, err := ParseObject(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			if i != left {
				other.Put(o)
			}
		}
		if same := left == len(lines); full.Equal(other) != same || other.Equal(full) != same {
			t.Errorf("without line %d of %d, equal is %t", left, len(lines), full.Equal(other))
		}
	}
	other := full.Clone()
	other.Running["flannel0"] = Running{Tier: "gso", Drops: map[string]uint64{"ttl": 2}}
	if full.Equal(other) {
		t.Error("a packet path has dropped another packet, and the states are equal")
	}
	other = full.Clone()
	other.Running["flannel0"] = Running{Tier: "gso", Carried: 1, Drops: map[string]uint64{"ttl": 1}}
	if full.Equal(other) {
		t.Error("a packet path has carried another packet, and the states are equal")
	}
	other = full.Clone()
	other.Alive[WGPeerKey{Link: "flannel-wg"}] = struct{}{}
	if full.Equal(other) || len(full.Alive) > 0 {
		t.Error("a peer has become alive, and the states are equal")
	}
	other = full.Clone()
	other.Handshakes[WGPeerKey{Link: "flannel-wg"}] = time.Unix(1, 0)
	if full.Equal(other) || len(full.Handshakes) > 0 {
		t.Error("a peer had a handshake, and the states are equal")
	}
}

func TestAddReplacesUnderTheSameKey(t *testing.T) {
	s := NewState()
	for _, line := range []string{
		"route 10.5.3.0/24 via 10.5.3.0 dev flannel.1 onlink",
		"route 10.5.3.0/24 via 192.168.64.9 dev eth0",
		"route 10.5.3.0/24 dev eth1 metric 5",
		"neigh 10.5.3.0 lladdr c6:d2:32:6f:8f:45 dev flannel.1",
		"neigh 10.5.3.0 lladdr c6:d2:32:6f:8f:46 dev flannel.1",
	} {
		o, err := ParseObject(line)
		if err != nil {
			t.Fatal(err)
		}
		s.Put(o)
	}
	const want = "neigh 10.5.3.0 lladdr c6:d2:32:6f:8f:46 dev flannel.1\n" +
		"route 10.5.3.0/24 dev eth1 metric 5\n" +
		"route 10.5.3.0/24 via 192.168.64.9 dev eth0\n"
	if got := s.Dump(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
