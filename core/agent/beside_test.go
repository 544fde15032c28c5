package agent

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/networks"
	"github.com/flanneld/flannel/core/node"
)

// quiet is a store with a view that the test sets.
type quiet struct {
	lease.Store
	view    lease.View
	changed chan struct{}
}

func (q *quiet) View() lease.View         { return q.view }
func (q *quiet) Changed() <-chan struct{} { return q.changed }

// holds gives the store a config, and tells so.
func (q *quiet) holds(config string, revision int64) {
	q.view = lease.View{Synced: true, Snapshot: &lease.Snapshot{Revision: revision,
		Config: lease.Document{Data: []byte(config), Revision: revision}}}
	q.changed <- struct{}{}
}

// A network learns of the others although neither node has asked for a view.
func TestNetworkLearnsOfTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := networks.NewHost("blue", "green")
		blue, green := &quiet{changed: make(chan struct{})}, &quiet{changed: make(chan struct{})}
		first, second := Beside(t.Context(), host, "blue", blue), Beside(t.Context(), host, "green", green)
		green.holds(`{"Network":"10.5.0.0/16"}`, 6)
		<-second.Changed()
		if v := second.View(); v.Snapshot != nil || v.Err == nil {
			t.Errorf("before blue is known, green sees %+v", v)
		}
		blue.holds(`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`, 5)
		<-first.Changed()
		<-second.Changed()
		if v := first.View(); v.Beside == nil || v.Beside.Refused != nil {
			t.Errorf("blue sees %+v", v)
		}
		if v := second.View(); v.Beside == nil || v.Beside.Refused == nil {
			t.Errorf("green, whose addresses blue has, sees %+v", v)
		}
	})
}

// With several networks, the listener is ready when all are, and a page is that of the
// network that the client names.
func TestListenerOfNetworks(t *testing.T) {
	blue, green := &Health{Network: "blue"}, &Health{Network: "green"}
	handler := Listen{OpenStatus: true}.handler(NewRoster(blue, green))
	get := func(path string, status int, want string) {
		t.Helper()
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != status || w.Body.String() != want {
			t.Errorf("%s: %d %q, want %d %q", path, w.Code, w.Body, status, want)
		}
	}
	turn := func(h *Health, p node.Pulse) {
		h.stepping(time.Now())
		h.waiting(time.Time{}, nil, p)
	}
	get("/readyz", 503, "flanneld is not ready yet\nnetwork blue: starting\nnetwork green: starting")
	turn(blue, node.Pulse{Phase: node.PhaseReady})
	turn(green, node.Pulse{Phase: node.PhaseIdle, Reasons: []string{"no config"}})
	get("/readyz", 503, "flanneld is not ready yet\nnetwork green: no config")
	get("/readyz?network=green", 503, "flanneld is not ready yet\nnetwork green: no config")
	get("/readyz?network=blue", 200, "flanneld is ready")
	get("/readyz?network=red", 404, "no network \"red\" here; ask for one of blue, green, as /readyz?network=blue\n")
	turn(green, node.Pulse{Phase: node.PhaseReady})
	get("/readyz", 200, "flanneld is ready")
	get("/healthz", 200, "flanneld is running")
	get("/peers?network=red", 404, "no network \"red\" here; ask for one of blue, green, as /peers?network=blue\n")
	get("/peers?network=green", 503, "flanneld is busy: its node does not answer\n")
}

// hinting is a lane that gives hints.
type hinting struct {
	driver.Lane
	hints chan struct{}
}

func (h hinting) Hints() <-chan struct{} { return h.hints }

// Each network gets the hints of the packet filter.
func TestShareFilter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kernel := hinting{hints: make(chan struct{})}
		filter := ShareFilter(t.Context(), kernel)
		lanes := []driver.Lane{filter.Join("blue"), filter.Join("green")}
		for range 2 {
			kernel.hints <- struct{}{}
			<-lanes[0].Hints()
			<-lanes[1].Hints()
		}
		filter.Leave("blue")
		kernel.hints <- struct{}{}
		<-lanes[1].Hints()
		synctest.Wait()
		select {
		case <-lanes[0].Hints():
			t.Error("a network that has left gets a hint")
		default: // nothing came
		}
	})
}
