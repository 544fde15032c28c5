package netconfig

import "testing"

func TestFollowing(t *testing.T) {
	const vxlan = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":7}}`
	for _, c := range []struct{ name, stored, document, want string }{
		{"another backend", vxlan, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"}}`,
			`{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"},"Formerly":[{"Type":"vxlan","VNI":7}]}`},
		{"on several lines", vxlan, "{\n \"Network\": \"10.5.0.0/16\",\n \"Backend\": {\"Type\": \"host-gw\"}\n}\n",
			"{\n  \"Network\": \"10.5.0.0/16\",\n  \"Backend\": {\n    \"Type\": \"host-gw\"\n  },\n  \"Formerly\": [\n    {\n" +
				"      \"Type\": \"vxlan\",\n      \"VNI\": 7\n    }\n  ]\n}\n"},
		{"the default backend before", `{"Network":"10.5.0.0/16"}`, vxlan,
			`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":7},"Formerly":[{"Type":"udp"}]}`},
		{"another option", vxlan, `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":7,"MTU":1400}}`, ""},
		{"another option in the middle of a change",
			`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"},"Formerly":[{"Type":"udp"}]}`,
			`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","MTU":1400}}`,
			`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","MTU":1400},"Formerly":[{"Type":"udp"}]}`},
		{"back in the middle of a change",
			`{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"},"Formerly":[{"Type":"vxlan","VNI":7}]}`, vxlan,
			`{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan","VNI":7},"Formerly":[{"Type":"host-gw"}]}`},
		{"the operator's word", vxlan, `{"Network":"10.5.0.0/16","Backend":{"Type":"host-gw"},"formerly":[]}`, ""},
		{"a backend that is alone", `{"Network":"10.5.0.0/16","Backend":{"Type":"alloc"}}`, vxlan, ""},
		{"nothing stored", "", vxlan, ""},
		{"no config", vxlan, `{"Network":`, ""},
	} {
		if c.want == "" {
			c.want = c.document
		}
		got, err := Following([]byte(c.document), []byte(c.stored))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
		}
	}
}
