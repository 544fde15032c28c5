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

// TestEndedDaemonsDoNotResume checks that a daemon which was stopped, killed or was never
// started does not count as running because something resumes it.
func TestEndedDaemonsDoNotResume(t *testing.T) {
	type mark = func(*Session, string)
	start := func(s *Session, name string) { s.started[name] = true }
	halts, resumes := (*Session).halts, (*Session).resumes
	ends := (*Session).ends
	for _, c := range []struct {
		name  string
		marks []mark
		runs  bool
	}{
		{"paused", []mark{start, halts, resumes}, true},
		{"paused twice", []mark{start, halts, halts, resumes}, true},
		{"not paused", []mark{start, resumes}, true},
		{"still paused", []mark{start, halts}, false},
		{"stopped", []mark{start, ends, resumes}, false},
		{"stopped while paused", []mark{start, halts, ends, resumes}, false},
		{"paused while stopped", []mark{start, ends, halts, resumes}, false},
		{"never started", []mark{resumes}, false},
	} {
		s := NewSession("none", nil)
		for _, mark := range c.marks {
			mark(s, "n1")
		}
		if s.started["n1"] != c.runs {
			t.Errorf("%s: the daemon counts as running: %t, want %t", c.name, s.started["n1"], c.runs)
		}
	}
}
