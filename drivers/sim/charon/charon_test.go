package charon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// pair is two hosts with their lanes.
type pair struct {
	*world.World
	segment *kernel.Segment
	hosts   [2]*kernel.Host
	lanes   [2]*Lane
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{World: world.New(1)}
	network := kernel.NewNetwork(p.World)
	p.segment = network.NewSegment("lan")
	for i := range p.hosts {
		p.hosts[i] = network.NewHost(fmt.Sprintf("n%d", i+1))
		addr := netip.MustParsePrefix(fmt.Sprintf("192.168.64.%d/24", i+1))
		if _, err := p.hosts[i].AddUplink("eth0", p.segment, addr); err != nil {
			t.Fatal(err)
		}
		p.lanes[i] = New(p.hosts[i])
	}
	return p
}

// apply performs ops in one lane. PSK stands for the name of the secret, CONN for the
// connection's name.
func (p *pair) apply(i int, psk string, ops ...string) []error {
	secret := dataplane.NewPassphrase(psk)
	if _, err := p.lanes[i].Look(context.Background(), dataplane.Extent{Passphrase: secret}); err != nil {
		return []error{err}
	}
	conn := fmt.Sprintf("192.168.64.%d-10.5.%d.0/24-10.5.%d.0/24-192.168.64.%d", i+1, i+1, 2-i, 2-i)
	var parsed []dataplane.Op
	for _, op := range ops {
		o, err := dataplane.ParseOp(strings.NewReplacer("PSK", string(secret.Name()), "CONN", conn).Replace(op))
		if err != nil {
			return []error{err}
		}
		parsed = append(parsed, o)
	}
	return p.lanes[i].Apply(context.Background(), parsed)
}

// run starts a daemon and loads all it needs.
func (p *pair) run(t *testing.T, i int, psk, esp string) {
	t.Helper()
	err := errors.Join(p.apply(i, psk, "add ike charon", "replace shared-key 192.168.64.1 PSK",
		"replace shared-key 192.168.64.2 PSK", "replace conn CONN esp "+esp)...)
	if err != nil {
		t.Fatal(err)
	}
}

// tunnels returns how many tunnels the daemon of a host reports.
func (p *pair) tunnels(t *testing.T, i int) int {
	t.Helper()
	seen, err := p.lanes[i].Look(context.Background(), dataplane.Extent{})
	if err != nil {
		t.Fatal(err)
	}
	return seen.State.Tunnels.Len()
}

// matched reports whether each of two hosts sends with a key that the other has.
func (p *pair) matched() bool {
	for i, h := range p.hosts {
		var youngest *kernel.Association
		for _, a := range h.Associations() {
			if a.From == netip.MustParseAddr(fmt.Sprintf("192.168.64.%d", i+1)) {
				youngest = &a
			}
		}
		known := false
		for _, a := range p.hosts[1-i].Associations() {
			known = known || youngest != nil && a == *youngest
		}
		if !known {
			return false
		}
	}
	return true
}

func (p *pair) expect(t *testing.T, tunnels bool) {
	t.Helper()
	if a, b := p.tunnels(t, 0) > 0, p.tunnels(t, 1) > 0; a != tunnels || b != tunnels || p.matched() != tunnels {
		t.Errorf("tunnels %t and %t, keys match %t; want %t", a, b, p.matched(), tunnels)
	}
}

const (
	psk = "a shared key"
	gcm = "aes128gcm16"
)

// TestRefused checks that daemons with different keys or proposals do not agree.
func TestRefused(t *testing.T) {
	for name, other := range map[string][2]string{"key": {"another key", gcm}, "proposal": {psk, "aes256gcm16"}} {
		p := newPair(t)
		p.run(t, 0, psk, gcm)
		p.run(t, 1, other[0], other[1])
		p.Run(time.Minute)
		if p.tunnels(t, 0)+p.tunnels(t, 1) > 0 {
			t.Errorf("another %s: there is a tunnel", name)
		}
	}
}

// TestUnloadAndInitiate unloads a connection, which ends its tunnel on both hosts, and
// loads and initiates it again.
func TestUnloadAndInitiate(t *testing.T) {
	p := newPair(t)
	p.run(t, 0, psk, gcm)
	p.run(t, 1, psk, gcm)
	p.Run(time.Minute)
	if errs := p.apply(0, psk, "del conn CONN", "add tunnel CONN", "del conn CONN"); errs[0] != nil ||
		!errors.Is(errs[1], driver.ErrNotFound) || !errors.Is(errs[2], driver.ErrNotFound) {
		t.Fatal(errs)
	}
	p.Run(time.Minute)
	p.expect(t, false)
	errs := p.apply(0, psk, "replace conn CONN esp "+gcm, "del tunnel CONN", "add tunnel CONN")
	if errors.Join(errs...) != nil {
		t.Fatal(errs)
	}
	p.Run(time.Minute)
	p.expect(t, true)
}

// TestErrors provokes the errors of a lane: no daemon, no program, a taken port, and a
// secret that is not the config's.
func TestErrors(t *testing.T) {
	p := newPair(t)
	missing := errors.New("charon: not found")
	p.lanes[0].Break(missing)
	errs := p.apply(0, psk, "add ike charon", "replace shared-key 192.168.64.1 PSK", "del ike charon")
	if !errors.Is(errs[0], missing) || !errors.Is(errs[1], driver.ErrNotFound) || !errors.Is(errs[2], driver.ErrNotFound) {
		t.Error(errs)
	}
	p.lanes[0].Break(nil)
	if err := p.hosts[0].TakePort(4500); err != nil {
		t.Fatal(err)
	}
	if errs := p.apply(0, psk, "add ike charon"); !errors.Is(errs[0], driver.ErrBusy) {
		t.Error(errs)
	}
	if err := p.hosts[0].LeavePort(4500); err != nil {
		t.Fatal(err)
	}
	if errs := p.apply(0, psk, "add ike charon", "add ike charon", "replace shared-key 192.168.64.1 psk-0",
		"del shared-key 192.168.64.1 PSK"); errs[0] != nil || !errors.Is(errs[1], driver.ErrExists) ||
		!errors.Is(errs[2], driver.ErrInvalid) || !errors.Is(errs[3], driver.ErrNotFound) {
		t.Error(errs)
	}
}
