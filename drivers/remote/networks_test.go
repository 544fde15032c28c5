package remote

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// list is a server of the one call that lists networks.
func list(t *testing.T, status int, text string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.String() != "/v1/" {
			t.Errorf("asked %s %s", r.Method, r.URL)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(server.Close)
	return server
}

// follow follows the networks of servers.
func follow(t *testing.T, servers ...*httptest.Server) *Networks {
	t.Helper()
	o := Options{Log: slog.New(slog.DiscardHandler)}
	for _, s := range servers {
		o.Servers = append(o.Servers, s.URL)
	}
	n, err := OpenNetworks(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

const someNetworks = `{"events":null,"snapshot":["blue","green"],"cursor":"42"}`

// The first server is of no use, so the names come from the second.
func TestNetworksOfTheNextServer(t *testing.T) {
	for name, first := range map[string]*httptest.Server{
		"no list":     list(t, http.StatusNotFound, "404 page not found"),
		"not ready":   list(t, http.StatusServiceUnavailable, "the datastore was not read yet"),
		"no snapshot": list(t, http.StatusOK, `{"events":[],"snapshot":null,"cursor":"7"}`),
		"no JSON":     list(t, http.StatusOK, "<html>"),
		"no cursor":   list(t, http.StatusOK, `{"events":null,"snapshot":["red"]}`),
		"too long":    list(t, http.StatusOK, `{"snapshot":["`+strings.Repeat("x", maxAnswer)+`"],"cursor":"7"}`),
	} {
		n := follow(t, first, list(t, http.StatusOK, someNetworks))
		for {
			<-n.Changed()
			if names, revision, synced := n.Names(); synced {
				if !slices.Equal(names, []string{"blue", "green"}) || revision != 42 {
					t.Errorf("%s: %q at revision %d", name, names, revision)
				}
				break
			}
		}
	}
}

// A server without the call is named, and told apart from one that is away.
func TestServerThatListsNoNetworks(t *testing.T) {
	server := list(t, http.StatusNotFound, "404 page not found")
	n := &Networks{o: Options{}.withDefaults(), client: server.Client()}
	_, _, err := n.ask(t.Context(), server.URL+"/v1")
	want := `it does not list its networks (404 Not Found: "404 page not found"): name them with --networks, ` +
		"or use a later server"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
