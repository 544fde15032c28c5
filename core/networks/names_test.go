package networks

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseNames(t *testing.T) {
	for _, c := range []struct {
		list  string
		names []string
		err   string
	}{
		{"blue", []string{"blue"}, ""},
		{"blue, green,red.2-x", []string{"blue", "green", "red.2-x"}, ""},
		{"", nil, "the name of a network is empty"},
		{"blue,", nil, "the name of a network is empty"},
		{"blue,green,blue", nil, `network "blue" is named twice`},
		{"blue/green", nil, `"blue/green" cannot be the name of a network: it may have no slash`},
		{"..", nil, `".." cannot be the name of a network`},
		{"a\nb", nil, `"a\nb" cannot be the name of a network`},
		{"bl\xffue", nil, `"bl\xffue" cannot be the name of a network: it is not UTF-8`}, // no label of a metric
		{"subnets", nil, "it is reserved"},
		{"config", nil, "it is reserved"},
		{"_", nil, "it is reserved"},
		{strings.Repeat("x", 201), nil, "the name of a network has 201 bytes; it may have 200"},
	} {
		names, err := ParseNames(c.list)
		if d := cmp.Diff(c.names, names); d != "" {
			t.Errorf("%q (-want +got):\n%s", c.list, d)
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: error %v, want %q", c.list, err, c.err)
		}
	}
}
