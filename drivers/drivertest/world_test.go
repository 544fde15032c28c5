package drivertest

import (
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
)

func TestParseAction(t *testing.T) {
	for _, c := range []struct {
		line string
		want Action
	}{
		{"down flannel.1", Action{Verb: Down, Link: "flannel.1"}},
		{" mtu eth0 1400 ", Action{Verb: SetMTU, Link: "eth0", MTU: 1400}},
		{"mac eth0 02:00:00:00:00:01", Action{Verb: SetMAC, Link: "eth0", MAC: dataplane.MAC{2, 0, 0, 0, 0, 1}}},
		{"del link eth0 type ethernet mtu 0",
			Action{Verb: Remove, Object: dataplane.Link{Name: "eth0", Params: dataplane.OtherLink(Ethernet)}}},
	} {
		if got, err := ParseAction(c.line); err != nil || got != c.want {
			t.Errorf("ParseAction(%q) = %+v, %v, want %+v", c.line, got, err, c.want)
		}
	}
	for _, c := range []struct{ line, want string }{
		{"", `action "": unknown verb`},
		{"dance eth0", `action "dance eth0": unknown verb`},
		{"up", `action "up": want 1 words after the verb, have 0`},
		{"up eth0 eth1", `action "up eth0 eth1": want 1 words after the verb, have 2`},
		{"mtu eth0 big", `action "mtu eth0 big": strconv.Atoi: parsing "big": invalid syntax`},
		{"mac eth0", `action "mac eth0": want 2 words after the verb, have 1`},
		{"mac eth0 zz", `action "mac eth0 zz": MAC "zz": want six hex octets separated by colons`},
		{"add tree", `action "add tree": object "tree": unknown kind "tree"`},
	} {
		if _, err := ParseAction(c.line); err == nil || err.Error() != c.want {
			t.Errorf("ParseAction(%q): error %v, want %s", c.line, err, c.want)
		}
	}
}

func FuzzParseAction(f *testing.F) {
	f.Add("add addr 192.168.64.3/24 dev eth0")
	f.Add("mtu eth0 1400")
	f.Add("mac eth0 02:00:00:00:00:01")
	f.Fuzz(func(t *testing.T, line string) {
		if d, err := ParseAction(line); err == nil && d.Object == nil && d.Link == "" {
			t.Errorf("%q is an action on nothing: %+v", line, d)
		}
	})
}
