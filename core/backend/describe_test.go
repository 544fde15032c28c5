package backend_test

import (
	"fmt"
	"testing"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/config"
)

// A description and a change name the options that matter, and no value of a secret.
func TestGivenAndChanged(t *testing.T) {
	const psk, other = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=", "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI="
	for _, c := range []struct{ typ, was, now, given, changed string }{
		{"vxlan", `{}`, `{"VNI":7,"Port":4789}`, `["VNI 7" "Port 4789"]`, `["VNI from 1 to 7" "Port from 0 to 4789"]`},
		{"vxlan", `{"VNI":7}`, `{}`, `[]`, `["VNI from 7 to 1"]`},
		{"vxlan", `{"Port":8472}`, `{"MacPrefix":"0E-2A"}`, `[]`, `[]`},
		{"vxlan", `{}`, `{"TxChecksum":"off"}`, `["TxChecksum \"off\""]`, `["TxChecksum from \"auto\" to \"off\""]`},
		{"wireguard", `{"PSK":"` + psk + `"}`, `{"PSK":"` + other + `"}`, `["PSK"]`, `["PSK"]`},
		{"extension", `{"SubnetAddCommand":"login secret"}`, `{"SubnetAddCommand":"true"}`, `["SubnetAddCommand"]`,
			`["SubnetAddCommand"]`},
	} {
		spec, _ := all.Find(c.typ)
		was, now := config.Backend{Options: []byte(c.was)}, config.Backend{Options: []byte(c.now)}
		given, changed := fmt.Sprintf("%q", spec.Given(now)), fmt.Sprintf("%q", spec.Changed(was, now))
		if given != c.given || changed != c.changed {
			t.Errorf("%s %s after %s: given %s, changed %s; want %s, %s",
				c.typ, c.now, c.was, given, changed, c.given, c.changed)
		}
	}
}
