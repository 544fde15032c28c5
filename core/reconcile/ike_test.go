package reconcile

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	conn3 = "conn 192.168.64.3-10.5.1.0/24-10.5.3.0/24-192.168.64.4 esp aes128gcm16\n"
	conn4 = "conn 192.168.64.3-10.5.1.0/24-10.5.4.0/24-192.168.64.5 esp aes128gcm16\n"
	keys  = "shared-key 192.168.64.3 psk-1\nshared-key 192.168.64.4 psk-1\n"
	up3   = "tunnel 192.168.64.3-10.5.1.0/24-10.5.3.0/24-192.168.64.4\n"
	up4   = "tunnel 192.168.64.3-10.5.1.0/24-10.5.4.0/24-192.168.64.5\n"

	formerKeys = "former-key 192.168.64.3 to 192.168.64.5\nformer-key 192.168.64.5 to 192.168.64.3\n" +
		"former-key 192.168.64.4 to 192.168.64.3\n"

	foreignConn = "conn 192.168.64.3-10.9.1.0/24-10.9.3.0/24-192.168.64.4 esp aes128gcm16\n"
)

// ikePlan returns the ops of a plan and those that are tried beside it, one a line.
func ikePlan(t *testing.T, want, have string, prune bool) string {
	t.Helper()
	wanted, held := parse(t, want), parse(t, have)
	opts := Options{Prune: prune, Own: Ownership{
		Networks: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")}, Addr: netip.MustParseAddr("192.168.64.3"),
	}}
	ops := IKE(wanted, held, opts).Ops
	if len(ops) == 0 {
		ops = slices.Concat(MissingTunnels(wanted, held), FormerKeys(wanted, held, opts))
	}
	return opsText(ops)
}

func TestIKE(t *testing.T) {
	const all = "ike charon\n" + keys + conn3
	for name, c := range map[string]struct{ want, have, plan string }{
		"start": {all, "", "add ike charon\n" +
			"replace shared-key 192.168.64.3 psk-1\nreplace shared-key 192.168.64.4 psk-1\n" +
			"replace " + conn3},
		"as desired":       {all, all + up3, ""},
		"no tunnel":        {all, all, "add " + up3},
		"another proposal": {all, strings.Replace(all, "aes128", "aes256", 1) + up3, "replace " + conn3},
		"another key": {all, strings.Replace(all, "psk-1", "psk-2", 1) + up3,
			"replace shared-key 192.168.64.3 psk-1\n"},
		"a peer left":         {all, all + conn4 + up3 + up4, "del " + conn4},
		"a peer left earlier": {all, all + up3 + up4, "del " + up4},
		"a peer left with charon's death": {all, all + up3 + formerKeys,
			"del former-key 192.168.64.5 to 192.168.64.3\ndel former-key 192.168.64.3 to 192.168.64.5\n"},
		"former keys of others": {all, all + up3 + "former-key 10.99.0.1 to 10.99.0.2\n", ""},
		"a foreign connection": {all, all + up3 + foreignConn + strings.Replace(up3, "10.5.1.0", "10.9.1.0", 1),
			""},
		"another backend": {"", all + up3 + formerKeys, "del " + conn3 +
			"del former-key 192.168.64.5 to 192.168.64.3\n" +
			"del former-key 192.168.64.4 to 192.168.64.3\n" +
			"del former-key 192.168.64.3 to 192.168.64.5\n" + "del shared-key 192.168.64.4 psk-1\n" +
			"del shared-key 192.168.64.3 psk-1\ndel ike charon\n"},
	} {
		if d := cmp.Diff(c.plan, ikePlan(t, c.want, c.have, true)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if plan := ikePlan(t, all, all+conn4+up3+up4+formerKeys, false); plan != "" {
		t.Errorf("before the store is synced:\n%s", plan)
	}
}
