package charon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/strongswan/govici/vici"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/internal/wake"
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

// To load a key the driver does not ask for those that charon has: with thousands of peers, each load would read
// thousands of names.
func TestKeysAreLoadedWithoutReadingAll(t *testing.T) {
	n := newNode(t, int(hosts(t).NS))
	n.do("add ike charon", "replace shared-key 192.168.64.1 PSK")
	requests := &recorder{}
	n.recordBy(requests)
	n.do("replace shared-key 192.168.64.2 PSK", "replace shared-key 192.168.64.3 PSK")
	if loads, reads := requests.count("load-shared"), requests.count("get-shared"); loads != 2 || reads != 1 {
		t.Errorf("%d loads and %d readings, want 2 and 1, which is the look", loads, reads)
	}
	former := psk
	psk := dataplane.NewPassphrase(strings.Repeat("fedcba9876543210", 6))
	n.passphrase = psk
	changed := dataplane.SharedKey{
		SharedKeyKey: dataplane.SharedKeyKey{Owner: netip.MustParseAddr("192.168.64.3")}, Secret: psk.Name(),
	}
	if err := n.Apply(t.Context(), []dataplane.Op{{Verb: dataplane.Replace, Object: changed}})[0]; err != nil {
		t.Fatal(err)
	}
	n.await(fmt.Sprintf("ike charon\nshared-key 192.168.64.1 %s\nshared-key 192.168.64.2 %s\nshared-key 192.168.64.3 %s\n",
		former.Name(), former.Name(), psk.Name()))
}

// A plan may run out of time while charon is busy. Charon keeps what it has been loaded with, and the next plan loads
// the rest.
func TestPlanRunsOutOfTime(t *testing.T) {
	n := newNode(t, int(hosts(t).NS))
	n.do("add ike charon", "replace shared-key 192.168.64.1 PSK")
	ctx, cancel := context.WithTimeout(t.Context(), grace+time.Second)
	defer cancel()
	last, over := context.WithTimeout(ctx, time.Second)
	defer over()
	n.recordBy(&recorder{until: last.Done()})
	errs := n.Apply(ctx, parse(t, "replace shared-key 192.168.64.2 PSK", "replace shared-key 192.168.64.3 PSK"))
	if errs[0] != nil || !errors.Is(errs[1], context.DeadlineExceeded) {
		t.Errorf("the request under way: %v, want none; the next one: %v, want that the time is over", errs[0], errs[1])
	}
	n.await("ike charon\nshared-key 192.168.64.1 PSK\nshared-key 192.168.64.2 PSK\n")
}

// recordBy connects the driver to its charon through a recorder.
func (n *node) recordBy(r *recorder) {
	n.t.Helper()
	if err := n.session.Close(); err != nil {
		n.t.Fatal(err)
	}
	session, err := vici.NewSession(vici.WithSocketPath(n.socket), vici.WithDialContext(r.dial))
	if err != nil {
		n.t.Fatal(err)
	}
	n.session = session
}

// recorder keeps what is sent to charon.
type recorder struct {
	until <-chan struct{} // nothing is sent before it is closed; nil: at once
	mu    sync.Mutex
	sent  strings.Builder

	writing wake.Signal // tells that a request is being sent; nil: no reader
}

// dial returns a connection to charon that is recorded.
func (r *recorder) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, address)
	return recorded{c, r}, err
}

// count returns how often a request was sent.
func (r *recorder) count(request string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Count(r.sent.String(), request)
}

type recorded struct {
	net.Conn
	in *recorder
}

// Write implements [net.Conn].
func (c recorded) Write(p []byte) (int, error) {
	if c.in.until != nil {
		<-c.in.until
	}
	c.in.mu.Lock()
	c.in.sent.Write(p)
	c.in.mu.Unlock()
	c.in.writing.Send()
	return c.Conn.Write(p)
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
