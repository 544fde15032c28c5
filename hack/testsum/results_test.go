package main

import "testing"

func TestSkipReason(t *testing.T) {
	for _, c := range []struct {
		what, want string
		output     []string
	}{
		{"one line", "no tun", []string{"=== RUN   TestA\n", "    a_test.go:3: no tun\n", "--- SKIP: TestA (0.00s)\n"}},
		{"two lines", "no tun on this host", []string{"    a_test.go:3: no tun\n", "        on this host\n"}},
		{"after other texts", "no chromium",
			[]string{"    b_test.go:1: step\n", "        done\n", "    a_test.go:3: no chromium\n"}},
		{"before a program's output", "no tun", []string{"    a_test.go:3: no tun\n", "udp-basic  netns  skipped\n"}},
		{"nothing", "no reason given", []string{"=== RUN   TestA\n", "--- SKIP: TestA (0.00s)\n"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			if got := skipReason(c.output); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
