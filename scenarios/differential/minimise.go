package differential

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Minimise returns the shortest list of steps that it can find for which the worlds
// still differ in any way. It uses delta debugging (ddmin) and finally drops single steps.
func (w Worlds) Minimise(ctx context.Context, steps []Step) ([]Step, *Mismatch, error) {
	m, err := w.Run(ctx, steps)
	if err != nil || m == nil {
		return steps, m, err
	}
	steps = steps[:m.Step+1]
	if single := apart(steps); len(single) > len(steps) {
		part, err := w.Run(ctx, single)
		if err != nil {
			return steps, m, err
		}
		if part != nil {
			steps, m = single[:part.Step+1], part
		}
	}
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
			steps = fewer[:part.Step+1]
			m = part
			shrunk = true
		}
		if !shrunk || size > len(steps) {
			size /= 2
		}
	}
	return steps, m, nil
}

// apart splits the steps: each op becomes a step of its own.
func apart(steps []Step) []Step {
	var out []Step
	for _, step := range steps {
		for line := range strings.Lines(string(step)) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(string(step), "apply ") && !strings.HasPrefix(line, "apply ") {
				line = "apply " + line
			}
			out = append(out, Step(line))
		}
	}
	return out
}

// Case prints the steps as a case of package drivertest. Record it on Linux with
// -rewrite.
func Case(steps []Step, m *Mismatch) string {
	var b strings.Builder
	host := false // a block of actions is open
	for i, step := range steps {
		ops, isOps := strings.CutPrefix(string(step), "apply ")
		if i > 0 && (isOps || !host) {
			b.WriteString("----\n\n")
		}
		if isOps {
			b.WriteString("apply\n" + ops + "\n")
			host = false
			continue
		}
		if !host {
			b.WriteString("host\n")
		}
		host = true
		if i == m.Step && m.What == "outcome" && m.Real == "refused" {
			b.WriteString("! ")
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
