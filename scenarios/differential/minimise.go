package differential

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Minimise returns the fewest of the steps it can find that still make the
// worlds part, however they do: ddmin, with single steps as the last resort.
func (w Worlds) Minimise(ctx context.Context, steps []Step) ([]Step, *Mismatch, error) {
	m, err := w.Run(ctx, steps)
	if err != nil || m == nil {
		return steps, m, err
	}
	steps = steps[:m.Step+1]
	for size := len(steps) / 2; size > 0; {
		shrunk := false
		for at := 0; at < len(steps) && len(steps) > 1; {
			fewer := slices.Concat(steps[:at], steps[min(at+size, len(steps)):])
			part, err := w.Run(ctx, fewer)
			if err != nil {
				return steps, m, err
			}
			if part == nil {
				at += size
				continue
			}
			steps, m, shrunk = fewer[:part.Step+1], part, true
		}
		if !shrunk || size > len(steps) {
			size /= 2
		}
	}
	return steps, m, nil
}

// Case prints the steps as a case of package drivertest, to be recorded from
// Linux with -rewrite. Refused deeds, which a case cannot hold, are comments.
func Case(steps []Step, m *Mismatch) string {
	var b strings.Builder
	block := ""
	begin := func(name string) {
		if block != "" && block != name {
			b.WriteString("----\n\n")
		}
		if block != name {
			b.WriteString(name + "\n")
		}
		block = name
	}
	for i, step := range steps {
		if op, isOp := strings.CutPrefix(string(step), "apply "); isOp {
			begin("apply")
			b.WriteString(op + "\n")
			continue
		}
		begin("host")
		if i == m.Step && m.What == "outcome" {
			fmt.Fprintf(&b, "# Linux: %s, simulator: %s\n", m.Real, m.Sim)
		}
		b.WriteString(string(step) + "\n")
	}
	extent := wholeHost()
	var paths []string
	for _, s := range extent.Sysctls {
		if slices.ContainsFunc(steps, func(s2 Step) bool { return strings.Contains(string(s2), s.Path) }) {
			paths = append(paths, s.Path)
		}
	}
	fmt.Fprintf(&b, "----\n\nobserve links=(%s) networks=(0.0.0.0/0, ::/0)", strings.Join(extent.Links, ", "))
	if len(paths) > 0 {
		fmt.Fprintf(&b, " sysctls=(%s)", strings.Join(paths, ", "))
	}
	b.WriteString("\n----\n\nfacts\n----\n")
	return b.String()
}
