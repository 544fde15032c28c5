package flannelctl

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/tools/pods/podstest"
)

// TestThroughTheAPIServer asks a daemon that answers its own host alone, as flanneld does: the question
// has to arrive from the loopback address.
func TestThroughTheAPIServer(t *testing.T) {
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.RemoteAddr, "127.0.0.1:") {
			t.Errorf("asked by %s", r.RemoteAddr)
		}
		fmt.Fprint(w, map[string]string{
			control.StatusPage: `{"Phase": "ready", "Ready": true, "Version": "v9", "Subnet": "10.5.1.0-24"}`,
			control.PeersPage:  `{"Peers": []}`, control.DiffPage: `{"Lanes": [{"Lane": "host"}]}`,
			control.EventsPage: `{"Events": []}`,
		}[r.URL.Path])
	}))
	defer daemon.Close()
	pod := func(name, node string) string {
		return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"nodeName":%q,"containers":[{"args":["--healthz-port=9081"]}]},
			"status":{"phase":"Running"}}`, name, node)
	}
	server := &podstest.Server{T: t, Listener: strings.TrimPrefix(daemon.URL, "http://"),
		Pods: `{"items":[` + pod("a", "n1") + "," + pod("b", "n2") + `]}`}
	there := []string{"--kubeconfig", server.Start(podstest.Token), "--context", "there"}
	page := filepath.Join(t.TempDir(), "page.html")
	runSteps(t, there, []step{
		{[]string{"status", "--node", "n1"}, statusOK, "phase     ready", ""},
		{[]string{"peers", "--node", "n1"}, statusOK, "no peers", ""},
		{[]string{"diff", "--node", "n1"}, statusOK, "", ""},
		{[]string{"version", "--node", "n1"}, statusOK, "flanneld    v9", ""},
		{[]string{"report", "--all-nodes", "-f", page}, statusOK, "The daemon that answered is ready.", ""},
		{[]string{"mesh", "--all-nodes", "-o", "json"}, statusOK, `"Asked": true`, ""},
		{[]string{"mesh", "--all-nodes", "--node", "n1"}, statusUsage, "", "[all-nodes node] were all set"},
		{[]string{"mesh", "--all-nodes", "--port", "8081"}, statusUsage, "", "[all-nodes port] were all set"},
		{[]string{"peers", "--address", "127.0.0.1:1", "--node", "n1"}, statusUsage, "", "[address node] were all set"},
	})
	for request, times := range map[string]int{
		"GET /prefix/api/v1/namespaces/kube-flannel/pods?fieldSelector=spec.nodeName%3Dn1&labelSelector=app%3Dflannel": 4,
		"GET /prefix/api/v1/namespaces/kube-flannel/pods?labelSelector=app%3Dflannel":                                  2,
		"POST /prefix/api/v1/namespaces/kube-flannel/pods/b/portforward":                                               2,
	} {
		if n := strings.Count(strings.Join(server.Asked(), "\n")+"\n", request+"\n"); n != times {
			t.Errorf("%d times %s", n, request)
		}
	}
	server.Pods = `{"items":[]}`
	runSteps(t, there, []step{
		{[]string{"status", "--node", "n7"}, statusTrouble, "",
			`no pod of flanneld with the label app=flannel runs on node "n7"`},
		{[]string{"mesh", "--all-nodes"}, statusTrouble, "", "no pod of flanneld runs in namespace kube-flannel"},
	})
	forbidden := []string{"--kubeconfig", server.Start("of another"), "--context", "there"}
	runSteps(t, forbidden, []step{{[]string{"status", "--node", "n1"}, statusTrouble, "", "pods is forbidden"}})
}
