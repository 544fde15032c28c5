package flannelctl

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The datastore's clock is the date of its answer, whatever the answer is. A server without a date, or no server, is an
// error that says what was asked.
func TestTimeOfTheDatastore(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	date, asked := at.Format(http.TimeFormat), ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		w.Header()["Date"] = nil // the server adds none
		if date != "" {
			w.Header().Set("Date", date)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	got, err := timeAt(t.Context(), server.URL)
	if err != nil || !got.Equal(at) || asked != "/version" {
		t.Errorf("asked %s: %s, %v; want %s", asked, got, err, at)
	}
	date = ""
	const complaint = "ask the datastore for its time"
	if got, err := timeAt(t.Context(), server.URL); err == nil || !strings.Contains(err.Error(), complaint) {
		t.Errorf("without a date: %s, %v", got, err)
	}
	server.Close()
	if got, err := timeAt(t.Context(), server.URL); err == nil || !strings.Contains(err.Error(), complaint) {
		t.Errorf("without a server: %s, %v", got, err)
	}
}

// Only an etcd over HTTP is asked for its time: over TLS the question would fail where etcd itself answers, for lack of
// the authority and the certificate.
func TestWhoseClock(t *testing.T) {
	for endpoints, want := range map[string]bool{
		"http://127.0.0.1:4001,http://127.0.0.1:2379": true,
		"https://192.168.64.1:2379":                   false,
		"unix:///var/lib/flannel/etcd/client.sock":    false,
	} {
		f := checkFlags{}
		f.datastore.etcd.Endpoints = endpoints
		if got := f.clock() != nil; got != want {
			t.Errorf("%s: asked for its time: %v, want %v", endpoints, got, want)
		}
	}
}
