package lang

import (
	"slices"
	"testing"
)

// The former configs are those that another one has replaced: a first config has none,
// so all that it does not demand is left over.
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
