package agent

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
)

// withSecrets is a node with an operator's command that names secrets in each of its texts, as the config,
// the command and its output may.
type withSecrets struct{ *fakeNode }

const secret = "s3cret"

func (withSecrets) command() dataplane.Command {
	return dataplane.Command{
		CommandKey: dataplane.CommandKey{Stage: dataplane.PreStartup}, Text: "run " + secret, Undo: "undo " + secret,
		Env: "TOKEN=" + secret, Input: secret, Output: "got " + secret, Limit: time.Second,
	}
}

func (w withSecrets) Tables() []node.Tables {
	s := dataplane.NewState()
	s.AddCommand(w.command())
	s.AddLink(dataplane.Link{Name: "flannel.1"})
	return []node.Tables{{Lane: "commands", Want: s, Have: s}}
}

func (w withSecrets) Differences() []node.Difference {
	return []node.Difference{{Lane: "commands", Lines: []node.Line{
		{Sign: "+", Object: w.command().String()}, {Sign: "-", Object: "command odd " + secret},
	}}}
}

// TestSecretsOfCommands reads all pages. Those of the health listener show no text, data and output of a
// command, even where the flags open them to everyone; the control socket shows them to root.
func TestSecretsOfCommands(t *testing.T) {
	h := &Health{}
	status := node.Status{Reasons: []string{"commands: exit status 1"}, Outputs: []string{secret}}
	n := withSecrets{&fakeNode{status: status}}
	h.askedBy(func(q func(machine)) bool { q(n); return true })
	h.stepping(time.Now())
	h.waiting(time.Time{}, nil, n.Pulse())
	h.remembering(func(node.Event) {})(node.Event{Kind: "command-failed", Text: "exit status 1", Output: secret})
	paths := []string{control.StatusPage, control.PeersPage, control.DiffPage, control.StatePage, control.EventsPage,
		"/readyz", "/healthz"}
	port := Listen{OpenStatus: true}.handler(NewRoster(h))
	socket := NewSocket("", h).server.http.Handler
	shown := map[string]int{}
	for _, path := range paths {
		text := body(port, path)
		if strings.Contains(text, secret) {
			t.Errorf("%s of the health listener:\n%s", path, text)
		}
		shown[path] = strings.Count(body(socket, path), secret)
	}
	for path, least := range map[string]int{
		control.StatusPage: 1, control.DiffPage: 2, control.StatePage: 10, control.EventsPage: 1,
	} {
		if shown[path] < least {
			t.Errorf("%s at the control socket names the secret %d times, want %d", path, shown[path], least)
		}
	}
	for path, want := range map[string]string{
		control.StatePage: `command pre-startup run \"(hidden)\"`, control.DiffPage: `command pre-startup run \"(hidden)\"`,
		control.EventsPage: "exit status 1",
	} {
		if text := body(port, path); !strings.Contains(text, want) {
			t.Errorf("%s of the health listener lacks %s:\n%s", path, want, text)
		}
	}
}

// body returns what a handler answers to a client on this host.
func body(handler http.Handler, path string) string {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr = "127.0.0.1:4711"
	handler.ServeHTTP(w, r)
	return w.Body.String()
}
