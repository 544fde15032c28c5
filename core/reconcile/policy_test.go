package reconcile

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	block  = "policy out 10.5.0.0/16 to 10.5.0.0/16 block priority 102\n"
	allow  = "policy out 10.5.1.0/24 to 10.5.1.0/24 allow priority 101\n"
	toPeer = "policy out 10.5.1.0/24 to 10.5.3.0/24 esp 192.168.64.3 to 192.168.64.4 reqid 11 priority 0\n"
)

// policyPlan returns the ops of a plan, one a line.
func policyPlan(t *testing.T, want, have string) string {
	t.Helper()
	own := Ownership{Networks: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")}}
	return opsText(Diff(parse(t, want), parse(t, have), Options{Own: own, Prune: true}).Ops)
}

// Blocking policies are added before all other policies and deleted after them.
func TestBlockPoliciesStandLongest(t *testing.T) {
	const link = "link flannel.ipip type ipip mtu 1480 up\n"
	if d := cmp.Diff("replace "+block+"replace "+allow+"replace "+toPeer+"add "+link,
		policyPlan(t, block+allow+toPeer+link, "")); d != "" {
		t.Errorf("new host (-want +got):\n%s", d)
	}
	if d := cmp.Diff("del "+toPeer+"del "+allow+"del "+block, policyPlan(t, "", block+allow+toPeer)); d != "" {
		t.Errorf("end (-want +got):\n%s", d)
	}
	moved := strings.Replace(toPeer, "192.168.64.4", "192.168.64.9", 1)
	if d := cmp.Diff("replace "+moved, policyPlan(t, block+moved, block+toPeer)); d != "" {
		t.Errorf("moved peer (-want +got):\n%s", d)
	}
}

// A policy is flannel's by the number of its tunnel, or by its priority and form,
// and only inside the overlay.
func TestForeignPoliciesStay(t *testing.T) {
	const foreign = "policy out 10.5.1.0/24 to 10.5.9.0/24 esp 192.168.64.3 to 192.168.64.4 reqid 12 priority 0\n" +
		"policy out 10.6.1.0/24 to 10.6.9.0/24 esp 192.168.64.3 to 192.168.64.4 reqid 11 priority 0\n" +
		"policy out 10.5.2.0/24 to 10.5.9.0/24 esp 192.168.64.3 to 192.168.64.4 reqid 11 priority 0 other transport\n" +
		"policy out 10.5.4.0/24 to 10.5.4.0/24 allow priority 100\n" +
		"policy in 10.5.4.0/24 to 10.5.4.0/24 allow priority 101\n" +
		"policy out 10.5.5.0/24 to 10.5.4.0/24 block priority 101\n" +
		"policy fwd 10.5.5.0/24 to 10.5.4.0/24 block priority 102\n"
	if plan := policyPlan(t, block, block+foreign); plan != "" {
		t.Errorf("plan:\n%s", plan)
	}
}
