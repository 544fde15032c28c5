package lease

import (
	"strings"
	"testing"
)

// Another host wrote the ways in a record: a text of no use is an error, and not a record
// without previous backends.
func TestDecodeWaysErrors(t *testing.T) {
	many := `{"Former":[` + strings.Repeat(`{"Backend":{"Type":"vxlan"}},`, maxFormer) + `{"Backend":{"Type":"udp"}}]}`
	for text, want := range map[string]string{
		`7`:                             "want an object",
		`{"Former":[{"Unused":true}]}`:  "has no Backend",
		`{"Former":[{"Backend":null}]}`: "has no Backend",
		many:                            "previous backends, more than",
	} {
		if _, err := DecodeWays([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
	most := strings.Replace(many, `,{"Backend":{"Type":"udp"}}`, "", 1)
	if w, err := DecodeWays([]byte(most)); err != nil || len(w.Former) != maxFormer {
		t.Errorf("%d previous backends: %v", len(w.Former), err)
	}
}
