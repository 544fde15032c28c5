package daemon

import (
	"fmt"
	"net/netip"
	"testing"
)

const testConfig = `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"}}`

// must fails the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func prefix(format string, args ...any) netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf(format, args...))
}
