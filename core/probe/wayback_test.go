package probe

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWayBack has a peer whose way back to the pods of this host is wrong, and whose bridge
// has never answered. That the bridge answers the host's own address shows that it exists.
func TestWayBack(t *testing.T) {
	x := direct()
	x.From, x.FromOptional = netip.MustParseAddr("10.5.9.1"), true
	n := newNetwork(t, time.Minute, x)
	wrong := true
	n.loseOne = func(r Request) bool { return wrong && r.From == x.From }
	n.run(2 * time.Minute)
	if r := n.result(x); r.Finding != Unreachable || !r.UplinkAnswers {
		t.Errorf("the way back is wrong: %+v", r)
	}
	wrong = false
	n.run(2 * time.Minute)
	if r := n.result(x); r.Finding != Well || r.Address != x.Addr {
		t.Errorf("the way back is right again: %+v", r)
	}
}

// TestNoBridgeAtEitherEnd counts the packets to a peer without pods: one from the bridge,
// one from the host's own address, and then the examination of its uplink.
func TestNoBridgeAtEitherEnd(t *testing.T) {
	x := direct()
	x.From, x.FromOptional = netip.MustParseAddr("10.5.9.1"), true
	n := newNetwork(t, time.Hour, x)
	n.dead[x.Addr] = true
	n.run(time.Hour)
	var got []string
	for _, r := range n.asked {
		got = append(got, fmt.Sprint(r.Kind, " ", r.To, " from ", r.From))
	}
	want := []string{
		"echo 10.5.1.1 from 10.5.9.1", "echo 10.5.1.1 from invalid IP",
		"echo 192.168.0.1 from invalid IP", "large 192.168.0.1 from invalid IP", "tcp 192.168.0.1 from invalid IP",
	}
	if !slices.Equal(got, want) || n.result(x).Finding != Well {
		t.Errorf("%+v after\n%s", n.result(x), strings.Join(got, "\n"))
	}
}
