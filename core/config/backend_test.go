package config

import (
	"encoding/json"
	"testing"
)

type options struct {
	VNI      uint32
	Port     uint16
	MTU      int
	Learning bool
	Name     string
	Tags     []string
}

func TestBackendDecode(t *testing.T) {
	for _, c := range []struct {
		text string
		want options
	}{
		{``, options{VNI: 1}},
		{`{"Type":"vxlan"}`, options{VNI: 1}},
		{`{"vni":4096,"Port":4789,"MTU":1400,"Learning":true,"Name":"x","Colour":3}`,
			options{VNI: 4096, Port: 4789, MTU: 1400, Learning: true, Name: "x"}},
		{`{"VNI":null}`, options{VNI: 1}},
	} {
		got := options{VNI: 1}
		if err := (Backend{Options: json.RawMessage(c.text)}).Decode(&got); err != nil {
			t.Errorf("Decode(%s): %v", c.text, err)
		}
		if got.VNI != c.want.VNI || got.Port != c.want.Port || got.MTU != c.want.MTU || got.Learning != c.want.Learning ||
			got.Name != c.want.Name {
			t.Errorf("Decode(%s) = %+v, want %+v", c.text, got, c.want)
		}
	}
}

func TestBackendDecodeErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"VNI":"1"}`, `Backend VNI "1": want a whole number from 0 to 4294967295`},
		{`{"vni":-1}`, `Backend VNI -1: want a whole number from 0 to 4294967295`},
		{`{"VNI":1.5}`, `Backend VNI 1.5: want a whole number from 0 to 4294967295`},
		{`{"Port":65536}`, `Backend Port 65536: want a whole number from 0 to 65535`},
		{`{"MTU":"1400"}`, `Backend MTU "1400": want a whole number`},
		{`{"Learning":"yes"}`, `Backend Learning "yes": want true or false`},
		{`{"Name":["x"]}`, `Backend Name ["x"]: want a string`},
		{`{"Tags":{"a":1}}`, `Backend Tags {"a":1}: want a []string`},
		{`{"Port":1, "port":"b"}`, `Backend Port "b": want a whole number from 0 to 65535`},
		{` { "VNI" : {"a": 1} , "Port":1}`, `Backend VNI {"a": 1}: want a whole number from 0 to 4294967295`},
		{`{"VNI":1,"Port":"a","port":2}`, `Backend Port "a": want a whole number from 0 to 65535`},
	} {
		if err := (Backend{Options: json.RawMessage(c.text)}).Decode(new(options)); err == nil || err.Error() != c.want {
			t.Errorf("Decode(%s)\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}
