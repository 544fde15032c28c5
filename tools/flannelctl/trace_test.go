package flannelctl

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/flanneld/flannel/tools/trace"
)

// The command line of trace is checked before anything is read.
func TestTraceUsage(t *testing.T) {
	for line, want := range map[string]string{
		"10.5.1.7 10.5.2.7 --proto sctp":               "--proto sctp: want tcp, udp or icmp",
		"10.5.1.7 10.5.2.7 --dport 80":                 "--dport 80: packets of ICMP have no port; add --proto tcp",
		"10.5.1.7 10.5.2.7 --proto tcp --dport 70000":  "invalid argument",
		"10.5.1.7 fd00::1 --proto tcp":                 "are of different families",
		"10.5.1.7 10.5.2.7 --proto udp --size 9":       "--size 9: want 41 to 65535",
		"10.5.1.x 10.5.2.7 --proto udp --via ssh":      "SRC:",
		"10.5.1.7 10.5.2.7 10.5.3.7 --proto udp --via": "flag needs an argument",
	} {
		status, _, stderr := call(append([]string{"trace"}, strings.Fields(line)...)...)
		if status != statusUsage || !strings.Contains(stderr, want) {
			t.Errorf("trace %s: status %d, %s; want %s", line, status, stderr, want)
		}
	}
}

// A host is asked by the command of --via, with the packet as it was given. A trace that ends in trouble ends the
// command with status 1, and is an answer.
func TestTraceVia(t *testing.T) {
	flow := trace.Flow{Src: netip.MustParseAddr("10.5.1.7"), Dst: netip.MustParseAddr("10.5.2.7"), Size: 84, Proto: "tcp",
		Port: 443}
	const answer = `{"Hops":[{"Step":"tunnel","Text":"no entry"}],"Reason":"fdb_missing"}`
	for _, c := range []struct{ via, out, fails, argv, err string }{
		{"ssh root@{}", answer, "exit status 1", "ssh root@192.168.64.2", ""},
		{"./on-node", answer, "", "./on-node 192.168.64.2", ""},
		{"ssh root@{}", "", "exit status 255: no route to host", "ssh root@192.168.64.2", "no route to host"},
		{"ssh root@{}", "{}", "", "ssh root@192.168.64.2", "it printed no trace"},
	} {
		var argv []string
		run := func(_ context.Context, words ...string) ([]byte, error) {
			argv = words
			if c.fails != "" {
				return []byte(c.out), errors.New(c.fails)
			}
			return []byte(c.out), nil
		}
		r, err := traceVia(t.Context(), run, c.via, netip.MustParseAddr("192.168.64.2"), flow)
		want := c.argv + " flannelctl trace 10.5.1.7 10.5.2.7 --size 84 --proto tcp --dport 443 -o json"
		if got := strings.Join(argv, " "); got != want {
			t.Errorf("ran %s\nwant %s", got, want)
		}
		switch {
		case c.err == "" && (err != nil || r.Reason != "fdb_missing"):
			t.Errorf("%s: %+v, %v", c.via, r, err)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), c.argv)):
			t.Errorf("%s: %v, want %s", c.via, err, c.err)
		}
	}
}
