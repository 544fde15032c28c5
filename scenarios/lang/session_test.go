package lang

import (
	"slices"
	"testing"
)

// TestFormerConfigs checks that the former configs are those that another one has
// replaced. With a first config there is none, so everything that it does not demand
// counts as left over.
func TestFormerConfigs(t *testing.T) {
	s := NewSession("none", nil)
	for _, c := range []struct {
		config   string
		formerly []string
	}{
		{"a", nil}, {"a", nil}, {"b", []string{"a"}}, {"a", []string{"a", "b"}}, {"c", []string{"a", "b"}},
	} {
		s.setConfig(c.config)
		if !slices.Equal(s.formerly, c.formerly) {
			t.Errorf("with %s in force the former configs are %q, want %q", c.config, s.formerly, c.formerly)
		}
	}
}
