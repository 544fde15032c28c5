package drivertest

import (
	"testing"

	"github.com/flanneld/flannel/core/dataplane"
)

func TestParseDeed(t *testing.T) {
	for _, c := range []struct {
		line string
		want Deed
	}{
		{"down flannel.1", Deed{Verb: Down, Link: "flannel.1"}},
		{" mtu eth0 1400 ", Deed{Verb: SetMTU, Link: "eth0", MTU: 1400}},
		{"mac eth0 02:00:00:00:00:01", Deed{Verb: SetMAC, Link: "eth0", MAC: dataplane.MAC{2, 0, 0, 0, 0, 1}}},
		{"del link eth0 type ethernet mtu 0",
			Deed{Verb: Remove, Object: dataplane.Link{Name: "eth0", Params: dataplane.OtherLink(Ethernet)}}},
	} {
		if got, err := ParseDeed(c.line); err != nil || got != c.want {
			t.Errorf("ParseDeed(%q) = %+v, %v, want %+v", c.line, got, err, c.want)
		}
	}
	for _, c := range []struct{ line, want string }{
		{"", `deed "": unknown verb`},
		{"dance eth0", `deed "dance eth0": unknown verb`},
		{"up", `deed "up": want 1 words after the verb, have 0`},
		{"up eth0 eth1", `deed "up eth0 eth1": want 1 words after the verb, have 2`},
		{"mtu eth0 big", `deed "mtu eth0 big": strconv.Atoi: parsing "big": invalid syntax`},
		{"mac eth0", `deed "mac eth0": want 2 words after the verb, have 1`},
		{"mac eth0 zz", `deed "mac eth0 zz": MAC "zz": want six hex octets separated by colons`},
		{"add tree", `deed "add tree": object "tree": unknown kind "tree"`},
	} {
		if _, err := ParseDeed(c.line); err == nil || err.Error() != c.want {
			t.Errorf("ParseDeed(%q): error %v, want %s", c.line, err, c.want)
		}
	}
}

func FuzzParseDeed(f *testing.F) {
	f.Add("add addr 192.168.64.3/24 dev eth0")
	f.Add("mtu eth0 1400")
	f.Add("mac eth0 02:00:00:00:00:01")
	f.Fuzz(func(t *testing.T, line string) {
		if d, err := ParseDeed(line); err == nil && d.Object == nil && d.Link == "" {
			t.Errorf("%q is a deed on nothing: %+v", line, d)
		}
	})
}
