package pods

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/tools/pods/podstest"
)

const somePods = `{"items":[
	{"metadata":{"name":"gone"},"spec":{"nodeName":"n1"},"status":{"phase":"Failed"}},
	{"metadata":{"name":"leaving","deletionTimestamp":"2026-05-01T00:00:00Z"},"spec":{"nodeName":"n1"},
		"status":{"phase":"Running"}},
	{"metadata":{"name":"b"},"spec":{"nodeName":"n2","containers":[{"args":["--ip-masq"]}]},"status":{"phase":"Running"}},
	{"metadata":{"name":"a"},"spec":{"nodeName":"n1","containers":[{"command":["flanneld"],
		"args":["--ip-masq","--healthz-port=9081"]}]},"status":{"phase":"Running"}}]}`

func open(t *testing.T, s *podstest.Server, token string) *Cluster {
	t.Helper()
	c, err := Open(Options{Kubeconfig: s.Start(token), Context: "there", Namespace: "kube-flannel"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPods lists pods: those that run, with the ports of their flags.
func TestPods(t *testing.T) {
	s := &podstest.Server{T: t, Pods: somePods}
	c := open(t, s, podstest.Token)
	found, err := c.Pods(t.Context(), "")
	want := []Pod{{"a", "n1", 9081}, {"b", "n2", defaultPort}}
	if d := cmp.Diff(want, found); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	pod, err := c.On(t.Context(), "n1")
	if err != nil || pod != want[0] {
		t.Errorf("on n1: %v, %v", pod, err)
	}
	asked := []string{
		"GET /prefix/api/v1/namespaces/kube-flannel/pods?labelSelector=app%3Dflannel",
		"GET /prefix/api/v1/namespaces/kube-flannel/pods?fieldSelector=spec.nodeName%3Dn1&labelSelector=app%3Dflannel",
	}
	if d := cmp.Diff(asked, s.Asked()); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
	s.Pods = `{"items":[]}`
	if _, err := c.On(t.Context(), "n7"); err == nil || !strings.Contains(err.Error(), `runs on node "n7"`) {
		t.Errorf("on a node without a pod: %v", err)
	}
}

// TestDial asks a listener on the loopback address through the API server.
func TestDial(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		line, _ := bufio.NewReader(conn).ReadString('\n')
		fmt.Fprintf(conn, "heard %s", line)
		conn.Close()
	}()
	s := &podstest.Server{T: t, Listener: l.Addr().String()}
	conn, err := open(t, s, podstest.Token).Dial(t.Context(), Pod{"a", "n1", 9081})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, "a question"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil || string(text) != "heard a question\n" {
		t.Errorf("%q, %v", text, err)
	}
	if want := []string{"POST /prefix/api/v1/namespaces/kube-flannel/pods/a/portforward"}; !cmp.Equal(want, s.Asked()) {
		t.Errorf("asked %q", s.Asked())
	}
}

// TestFailures says where it went wrong: at the API server, or on the node.
func TestFailures(t *testing.T) {
	pod := Pod{"a", "n1", 9081}
	conn, err := open(t, &podstest.Server{T: t}, podstest.Token).Dial(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = conn.Read(make([]byte, 10))
	if err == nil || !strings.Contains(err.Error(), "port 9081 of pod a: error forwarding port 9081") {
		t.Errorf("a port where nothing listens: %v", err)
	}
	odd := &podstest.Server{T: t}
	for _, name := range []string{"", "..", "../../x", "a/b", "a%2fb"} {
		_, err = open(t, odd, podstest.Token).Dial(t.Context(), Pod{name, "n1", 9081})
		if err == nil || !strings.Contains(err.Error(), "is no name of a pod") {
			t.Errorf("a pod %q: %v", name, err)
		}
	}
	if len(odd.Asked()) > 0 {
		t.Errorf("asked %q", odd.Asked())
	}
	c := open(t, &podstest.Server{T: t, Pods: somePods}, "of another")
	_, err = c.Dial(t.Context(), pod)
	if err == nil || !strings.Contains(err.Error(), "pods is forbidden") {
		t.Errorf("without the right: %v", err)
	}
	_, err = c.Pods(t.Context(), "")
	if err == nil || !strings.Contains(err.Error(), "pods is forbidden") {
		t.Errorf("a list without the right: %v", err)
	}
	_, err = Open(Options{Kubeconfig: filepath.Join(t.TempDir(), "none")})
	if err == nil || !strings.Contains(err.Error(), "kubeconfig: ") {
		t.Errorf("no kubeconfig: %v", err)
	}
}

// FuzzList reads lists of pods that an API server might send.
func FuzzList(f *testing.F) {
	f.Add([]byte(somePods))
	f.Add([]byte(`{"items":[{"spec":{"containers":[{"args":["--healthz-port=70000","-healthz-port=1"]}]}}]}`))
	f.Add([]byte(`{"items":[{"status":{"phase":"Running"},"spec":{"containers":null}},null]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var all list
		if json.Unmarshal(text, &all) != nil {
			return
		}
		for _, p := range all.running() {
			if p.Port == 0 {
				t.Errorf("%q has a pod without a port: %+v", text, p)
			}
		}
	})
}
