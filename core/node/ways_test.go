package node

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/lease"
)

// A node counts a former way as ended by its peers from the request that calls it unused, until its
// record uses the way again.
func TestWaysThatPeersMayEnd(t *testing.T) {
	const former = `{"Type":"vxlan"}`
	w := readyWorld(t)
	config := func(text string) {
		w.rev++
		w.snap.Revision = w.rev
		w.snap.Config = lease.Document{Data: []byte(text), Revision: w.rev}
		w.tell()
		w.pass(time.Second)
	}
	wantLeft := func(when string, left bool) {
		t.Helper()
		if got := w.n.network.left[former]; got != left {
			t.Errorf("%s: peers may have ended vxlan: %t\n%s", when, got, lease.EncodeAttrs(w.own().Attrs))
		}
	}
	config(strings.Replace(vxlanConfig, `"vxlan"`, `"host-gw"`, 1))
	wantLeft("while peers use vxlan alone", false)

	w.held = true
	for n, key := range map[byte]string{4: "10.5.3.0-24", 5: "10.5.4.0-24"} {
		p := vxlanPeer(key, n)
		data := p.Attrs.BackendData
		p.Attrs.BackendType, p.Attrs.BackendData = "host-gw", nil
		p.Attrs.Ways.Former = []lease.FormerWay{{Backend: json.RawMessage(former), Data: data}}
		w.put(p)
	}
	w.tell()
	w.pass(time.Second)
	if w.pending == nil || strings.Contains(string(lease.EncodeAttrs(w.own().Attrs)), `"Unused":true`) {
		t.Fatalf("no request is under way\n%s", w.log())
	}
	wantLeft("while the request is under way", true)

	w.held = false
	w.run(Input{Requested: w.serve(), View: w.view()})
	w.pass(time.Second)
	wantLeft("after the answer", true)

	config(vxlanConfig)
	wantLeft("after the way back", false)
}
