package kernel_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/drivertest"
	"github.com/flanneld/flannel/drivers/sim/kernel"
	"github.com/flanneld/flannel/drivers/sim/simtest"
)

func TestFirewallConformance(t *testing.T) {
	drivertest.RunFirewall(t, "../../..", func(*testing.T) drivertest.FirewallWorld {
		return filtered{simtest.NewHost(1).Host}
	})
}

// filtered is a host whose packet filter is tested.
type filtered struct{ *kernel.Host }

// Admits implements [drivertest.FirewallWorld].
func (f filtered) Admits(_ context.Context, p dataplane.Packet) (bool, error) {
	return f.AdmitsInput(p), nil
}

// Harm implements [drivertest.FirewallWorld].
func (f filtered) Harm(_ context.Context, h drivertest.Harm) error {
	switch h.Verb {
	case drivertest.FlushRuleset:
		f.FlushRuleset()
	case drivertest.FlushIPTables:
		f.FlushIPTables()
	case drivertest.MoveJumps:
		f.MoveJump()
	case drivertest.Stray:
		f.AddStrayRule(h.Rule)
	case drivertest.Foreign:
		f.ForeignRule(h.Family, h.Hook, h.Rule)
	case drivertest.Policy:
		f.ForwardPolicy(h.Rule.Verdict)
	case drivertest.ForeignTable:
		f.AddForeignTable(h.Name)
	case drivertest.Zones:
		f.AddZones(h.Name, "cni0")
	default:
		return fmt.Errorf("no harm %q", h.Verb)
	}
	return nil
}
