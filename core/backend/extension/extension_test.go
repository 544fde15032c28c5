package extension_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/uplink"
)

func open(t testing.TB, text string) (backend.Backend, config.Network, error) {
	t.Helper()
	network, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	b, err := all.New(network)
	return b, network, err
}

func TestBadValues(t *testing.T) {
	for options, want := range map[string]string{
		`"PreStartupCommand":5`:         `Backend PreStartupCommand 5: want a text`,
		`"PostStartupCommand":[]`:       `Backend PostStartupCommand []: want a text`,
		`"SubnetAddCommand":true`:       `Backend SubnetAddCommand true: want a text`,
		`"SubnetRemoveCommand":{}`:      `Backend SubnetRemoveCommand {}: want a text`,
		`"ShutdownCommand":1`:           `Backend ShutdownCommand 1: want a text`,
		`"SubnetAddCommand":"a\u0000b"`: `Backend SubnetAddCommand: a command holds no NUL character`,
		`"CommandTimeout":0`:            `Backend CommandTimeout 0: want a whole number from 1 to 3600`,
		`"CommandTimeout":"30s"`:        `Backend CommandTimeout "30s": want a whole number from 1 to 3600`,
		`"ResyncPeriod":-1`:             `Backend ResyncPeriod -1: want 0 or a whole number from 1 to 86400`,
		`"ResyncPeriod":86401`:          `Backend ResyncPeriod 86401: want 0 or a whole number from 1 to 86400`,
	} {
		_, _, err := open(t, `{"Network":"10.5.0.0/16","Backend":{"Type":"extension",`+options+`}}`)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", options, err, want)
		}
	}
	_, _, err := open(t,
		`{"EnableIPv4":false,"EnableIPv6":true,"IPv6Network":"fd00:10::/48","Backend":{"Type":"extension"}}`)
	const want = `backend type "extension" does not carry the families of this network (EnableIPv4 false, EnableIPv6 true)`
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("IPv6 alone: %v", err)
	}
}

// The address of a record may carry a zone of any characters; the environment
// shows none of it, and no record becomes a part of a text.
func FuzzRecordsAreOnlyData(f *testing.F) {
	f.Add(`{"PublicIP":"192.168.64.4","PublicIPv6":"fe80::1%x LD_PRELOAD=/x","BackendType":"extension",` +
		`"BackendData":"$(x)"}`)
	f.Add(`{"PublicIP":"192.168.64.4","BackendType":"extension","BackendData":"'; reboot\n"}`)
	f.Add(`{"PublicIP":"192.168.64.4","BackendType":"extension","BackendData":{"a":1}}`)
	f.Add(`{"PublicIP":"192.168.64.4","BackendType":"extension","BackendData":"` +
		strings.Repeat(`$(touch pwned)\n'; reboot\u0000 `, 1<<20/29) + `"}`)
	b, network, err := open(f, `{"Network":"10.5.0.0/16","Backend":{"Type":"extension","SubnetAddCommand":"add"}}`)
	if err != nil {
		f.Fatal(err)
	}
	env := backend.Env{Config: network, Uplink: uplink.Uplink{Link: "eth0", IP: netip.MustParseAddr("192.168.64.3")}}
	f.Fuzz(func(t *testing.T, record string) {
		attrs, err := lease.DecodeAttrs([]byte(record))
		if err != nil {
			t.Skip("such a record is quarantined")
		}
		peer := &lease.Lease{Key: lease.Key{V4: netip.MustParsePrefix("10.5.4.0/24")}, Attrs: attrs}
		state, _ := b.Render(env, backend.Self{}, []*lease.Lease{peer})
		for _, c := range state.Commands.All {
			var names []string
			for _, assignment := range strings.Fields(c.Env) {
				name, _, _ := strings.Cut(assignment, "=")
				names = append(names, name)
			}
			if c.Text != "add" || strings.Join(names, " ") != "SUBNET IPV6SUBNET PUBLIC_IP PUBLIC_IPV6" {
				t.Errorf("%q becomes %s", record, c)
			}
			if again, err := dataplane.ParseObject(c.String()); err != nil || again != dataplane.Object(c) {
				t.Errorf("%s reads back as %v, %v", c, again, err)
			}
		}
	})
}
