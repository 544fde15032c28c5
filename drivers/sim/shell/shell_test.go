package shell

import (
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// host records the changes of routes, and refuses those to one destination.
type host struct{ changes []string }

func (h *host) Route(verb string, dst netip.Prefix, via netip.Addr) error {
	h.changes = append(h.changes, fmt.Sprintf("%s %s via %s", verb, dst, via))
	if dst == netip.MustParsePrefix("10.5.9.0/24") {
		return errors.New("File exists")
	}
	return nil
}

// routes are texts that run the program ip, with their expected effects.
var routes = []struct {
	text, output string
	status       int
	changes      []string
}{
	{text: "ip route add $SUBNET via $PUBLIC_IP", changes: []string{"add 10.5.3.0/24 via 192.168.64.3"}},
	{text: "ip route add 10.5.9.0/24 via $PUBLIC_IP", output: "RTNETLINK answers: File exists", status: 2,
		changes: []string{"add 10.5.9.0/24 via 192.168.64.3"}},
	{text: "ip route del $NONE via $PUBLIC_IP", output: `ip: unknown arguments ["route" "del" "via" "192.168.64.3"]`,
		status: 1},
	{text: "ip route del 10.5.3.0 via x", output: `Error: inet prefix is expected rather than "10.5.3.0".`, status: 1},
	{text: "ip route del 10.5.3.0/24 via x", output: `Error: inet address is expected rather than "x".`, status: 1},
	{text: "ip link add x", output: `ip: unknown arguments ["link" "add" "x"]`, status: 1},
	{text: "no-such-program", output: "sh: 1: no-such-program: not found", status: NotFound},
}

func TestRoutes(t *testing.T) {
	for _, c := range routes {
		var h host
		output, status := Run(c.text, environment, "", &h)
		if output != c.output || status != c.status || !slices.Equal(h.changes, c.changes) {
			t.Errorf("%q: printed %q, status %d, did %q; want %q, %d, %q",
				c.text, output, status, h.changes, c.output, c.status, c.changes)
		}
	}
}

// environment holds values that a shell must not read as a part of the text.
var environment = []string{"SUBNET=10.5.3.0/24", "PUBLIC_IP=192.168.64.3", "ODD=a;  false", "HOSTILE=$(exit 1)`x`'"}

// TestSameAsTheRealShell runs texts in this shell and in the machine's, and compares.
func TestSameAsTheRealShell(t *testing.T) {
	for _, c := range []struct{ text, input string }{
		{text: ""},
		{text: `echo $SUBNET 'of $SUBNET' "by $PUBLIC_IP"`},
		{text: `echo $ODD; echo "$ODD"; echo b`},
		{text: `echo "$HOSTILE" $NONE end`},
		{text: `read LINE; echo "<$LINE>"`, input: " one \ntwo\n"},
		{text: "read A; read B; echo $B $A", input: "one\ntwo\n"},
		{text: "read A", input: "no end"},
		{text: "false && echo no; echo yes"},
		{text: "false || echo yes"},
		{text: "true || echo no"},
		{text: "true && false"},
		{text: "echo a; exit 3; echo b"},
		{text: "sleep 0 && true\necho next"},
		{text: `echo 'a;b' && echo "c||d"`},
	} {
		sh := exec.Command("sh", "-c", c.text)
		sh.Env, sh.Stdin = environment, strings.NewReader(c.input)
		said, _ := sh.CombinedOutput()
		want, wantStatus := strings.TrimSpace(string(said)), sh.ProcessState.ExitCode()
		if output, status := Run(c.text, environment, c.input, nil); output != want || status != wantStatus {
			t.Errorf("%q: printed %q, status %d; the real shell: %q, %d", c.text, output, status, want, wantStatus)
		}
	}
}
