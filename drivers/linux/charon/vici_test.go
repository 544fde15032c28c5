package charon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/strongswan/govici/vici"

	"github.com/flanneld/flannel/core/dataplane"
)

// loaded is the message that loads a connection, in the order of its names. Peers depend on the
// proposals, the rekey time and the actions, so all of it is as in the contract (interop 6.6), which lacks
// only dpd_delay.
const loaded = `192.168.64.1-10.5.1.0/24-10.5.2.0/24-192.168.64.2:
  children:
    10.5.1.0/24-10.5.2.0/24:
      close_action = trap
      dpd_action = restart
      esp_proposals = [aes128gcm16-sha256-prfsha256-ecp256]
      local_ts = [10.5.1.0/24]
      mode = tunnel
      policies = no
      rekey_time = 1h
      remote_ts = [10.5.2.0/24]
      reqid = 11
      start_action = start
  dpd_delay = 60s
  encap = false
  keyingtries = 0
  local:
    auth = psk
  local_addrs = [192.168.64.1]
  proposals = [aes256-sha256-modp4096]
  remote:
    auth = psk
  remote_addrs = [192.168.64.2]
  version = 2
`

// A connection is loaded with the values of the contract.
func TestLoadConnAsInContract(t *testing.T) {
	for _, c := range []struct{ name, params, want string }{
		{"default", esp, loaded},
		{"UDPEncap", esp + " encap", strings.Replace(loaded, "encap = false", "encap = true", 1)},
		{"ESPProposal", "esp aes256-sha256-modp2048",
			strings.Replace(loaded, "aes128gcm16-sha256-prfsha256-ecp256", "aes256-sha256-modp2048", 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn := parse(t, "replace conn "+name+" "+c.params)[0].Object.(dataplane.Conn)
			m, err := message(loading(conn))
			if err != nil {
				t.Fatal(err)
			}
			if got := written(m, ""); got != c.want {
				t.Errorf("load-conn with\n%swant\n%s", got, c.want)
			}
		})
	}
}

// written returns the text of a message: a line for each name, sections indented.
func written(m *vici.Message, indent string) string {
	var text strings.Builder
	names := m.Keys()
	slices.Sort(names)
	for _, key := range names {
		if section, ok := m.Get(key).(*vici.Message); ok {
			fmt.Fprintf(&text, "%s%s:\n%s", indent, key, written(section, indent+"  "))
		} else {
			fmt.Fprintf(&text, "%s%s = %v\n", indent, key, m.Get(key))
		}
	}
	return text.String()
}
