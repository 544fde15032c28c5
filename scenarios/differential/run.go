package differential

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/drivertest"
)

// Mismatch is the first step after which two worlds differ.
type Mismatch struct {
	Step int
	What string // the step's outcome, "observe" or "facts"
	Sim  string
	Real string
}

// World is a host that can be closed.
type World interface {
	drivertest.World
	Close() error
}

// Worlds creates a pair of fresh hosts.
type Worlds struct{ Real, Sim func() (World, error) }

// Run performs the steps on a pair of fresh hosts until they differ. It returns
// nil if they never do.
func (w Worlds) Run(ctx context.Context, steps []Step) (m *Mismatch, err error) {
	linux, err := w.Real()
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := linux.Close(); err == nil {
			err = e
		}
	}()
	sim, err := w.Sim()
	if err != nil {
		return nil, err
	}
	a, b := &player{World: linux, extent: wholeHost()}, &player{World: sim, extent: wholeHost()}
	for i, step := range steps {
		pages := [2][3]string{}
		for j, p := range []*player{a, b} {
			pages[j], err = p.play(ctx, step)
			if err != nil {
				return nil, fmt.Errorf("step %d, %s, world %d: %w", i, step, j, err)
			}
		}
		for k, what := range []string{"outcome", "observe", "facts"} {
			if pages[0][k] != pages[1][k] {
				return &Mismatch{Step: i, What: what, Real: pages[0][k], Sim: pages[1][k]}, nil
			}
		}
	}
	return nil, sim.Close()
}

// player performs steps on one world.
type player struct {
	World
	drivertest.Printer
	extent dataplane.Extent
}

// play performs one step, and returns its outcome and the reading afterwards.
func (p *player) play(ctx context.Context, step Step) (page [3]string, err error) {
	p.Given(string(step))
	page[0], err = p.do(ctx, step)
	if err != nil {
		return page, err
	}
	few := p.extent
	few.Again = []dataplane.Object{} // the kernel announces what others change
	quick, err := p.Driver().Look(ctx, few)
	if err != nil {
		return page, err
	}
	seen, err := p.Driver().Look(ctx, p.extent)
	if err != nil {
		return page, err
	}
	if !quick.State.Equal(seen.State) {
		return page, fmt.Errorf("after %q a look at no object shows\n%sand not\n%s",
			step, p.State(quick.State), p.State(seen.State))
	}
	page[1], page[2] = p.State(seen.State), p.Facts(seen.Facts.(driver.HostFacts))
	return page, nil
}

// do returns the classes of the ops' errors. For an action it returns only whether
// there was an error, since administrators' commands have errors of their own.
func (p *player) do(ctx context.Context, step Step) (string, error) {
	if text, isOp := strings.CutPrefix(string(step), "apply "); isOp {
		var ops []dataplane.Op
		for line := range strings.Lines(text) {
			op, err := dataplane.ParseOp(line)
			if err != nil {
				return "", err
			}
			ops = append(ops, op)
		}
		var classes []string
		for _, err := range p.Driver().Apply(ctx, ops) {
			classes = append(classes, drivertest.Class(err))
		}
		return strings.Join(classes, "\n"), nil
	}
	action, err := drivertest.ParseAction(string(step))
	if err != nil {
		return "", err
	}
	if p.Do(ctx, action) != nil {
		return "refused", nil
	}
	return "done", nil
}

// wholeHost is the extent of the whole universe.
func wholeHost() dataplane.Extent {
	e := dataplane.Extent{Networks: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}}
	for _, ip := range slices.Concat(neighIPs, remotes) {
		e.Reach = append(e.Reach, netip.MustParseAddr(ip))
	}
	slices.SortFunc(e.Reach, netip.Addr.Compare)
	for _, name := range names {
		if !slices.Contains(e.Links, name) {
			e.Links = append(e.Links, name)
		}
	}
	paths := slices.Clone(settings)
	for _, name := range e.Links {
		for _, form := range linkSettings {
			paths = append(paths, fmt.Sprintf(form, name))
		}
	}
	for _, path := range paths {
		e.Sysctls = append(e.Sysctls, dataplane.Sysctl{Path: path})
	}
	return e
}
