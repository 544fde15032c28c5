package drivertest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// testdata holds the cases, seen from the root of the repository.
const testdata = "drivers/drivertest/testdata"

// Run runs every case, each file in a fresh world. Root leads from the test's
// folder to the root of the repository. The commands of a file are
//
//	host                  actions, one a line (see [ParseAction]), which must succeed,
//	                      or with "! " before them, which must be refused
//	apply                 ops, one a line; prints "ok" or the error's class for each
//	observe links=(…) networks=(…) sysctls=(…) psks=(…) policies
//	                      prints the State; a second look that finds the same
//	                      must hand over the same pointer. The pre-shared keys are
//	                      those that [Secrets] has under these names. A look before
//	                      them reuses what the last one read, and must find the same;
//	                      the input, if there is any, are the objects that it has to
//	                      read again, or else it reads those of the last "apply"
//	facts reach=(…) keys=(…)
//	                      prints the facts, with the routes to these addresses and
//	                      the public halves of these secrets
//	forwarding            prints the families of which the host forwards no packet
//
// A MAC that no command set is printed as "random". The kernel's own IPv6
// link-local addresses and routes are left out everywhere.
func Run(t *testing.T, root string, newWorld func(t *testing.T) World) {
	datadriven.Walk(t, root+"/"+testdata, func(t *testing.T, path string) {
		r := &runner{world: newWorld(t)}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			return r.command(t, d)
		})
	})
}

// runner runs one file.
type runner struct {
	world   World
	applied []dataplane.Object // by the last "apply"
	Printer
}

func (r *runner) command(t *testing.T, d *datadriven.TestData) string {
	r.Given(d.Input)
	switch d.Cmd {
	case "host":
		return r.host(t, d)
	case "apply":
		return apply(t, r.applier, d)
	case "observe":
		return r.observe(t, d)
	case "facts":
		return r.facts(t, d)
	case "forwarding":
		return forwarding(r.look(t, d, dataplane.Extent{}).Facts.(driver.HostFacts))
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return ""
}

func (r *runner) host(t *testing.T, d *datadriven.TestData) string {
	for line := range lines(d.Input) {
		text, refused := strings.CutPrefix(line, "! ")
		action, err := ParseAction(text)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		if err := r.world.Do(t.Context(), action); refused != (err != nil) {
			d.Fatalf(t, "%s: error %v", line, err)
		}
	}
	return ""
}

// applier applies ops and remembers what they are about.
func (r *runner) applier(ctx context.Context, ops []dataplane.Op) []error {
	r.applied = nil
	for _, op := range ops {
		r.applied = append(r.applied, op.Object)
	}
	return r.world.Driver().Apply(ctx, ops)
}

// apply performs ops, one a line, and prints the class of each error.
func apply(t *testing.T, do func(context.Context, []dataplane.Op) []error, d *datadriven.TestData) string {
	var ops []dataplane.Op
	for line := range lines(d.Input) {
		op, err := dataplane.ParseOp(line)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		ops = append(ops, op)
	}
	errs := do(t.Context(), ops)
	if len(errs) != len(ops) {
		d.Fatalf(t, "%d ops gave %d errors", len(ops), len(errs))
	}
	var b strings.Builder
	for i, err := range errs {
		fmt.Fprintln(&b, Class(err))
		if err != nil && !strings.Contains(err.Error(), ops[i].Object.String()) {
			t.Errorf("error does not name its object %q: %v", ops[i].Object, err)
		}
	}
	return b.String()
}

// Class returns "ok" or the text of the error class; every error of a driver
// wraps one.
func Class(err error) string {
	if err == nil {
		return "ok"
	}
	for _, class := range []error{
		driver.ErrExists, driver.ErrNotFound, driver.ErrLinkDown, driver.ErrUnreachable,
		driver.ErrUnsupported, driver.ErrBusy, driver.ErrInvalid, driver.ErrDenied,
	} {
		if errors.Is(err, class) {
			return class.Error()
		}
	}
	return "no class: " + err.Error()
}

func (r *runner) observe(t *testing.T, d *datadriven.TestData) string {
	extent, err := parseExtent(d)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	seen := r.lookTwice(t, d, extent)
	again := r.look(t, d, extent)
	if again.State != seen.State && again.State.Equal(seen.State) {
		t.Errorf("%s: a second look hands over an equal state that is not the same", d.Pos)
	}
	return r.State(seen.State)
}

func (r *runner) facts(t *testing.T, d *datadriven.TestData) string {
	extent, err := parseExtent(d)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return r.Facts(r.lookTwice(t, d, extent).Facts.(driver.HostFacts))
}

// lookTwice looks at few objects and then at everything, which has to give the same. It compares
// facts as they are printed, without link-local addresses: Linux makes these some time after a
// device is up, perhaps between the two looks. Counters of packets may move between them, too.
func (r *runner) lookTwice(t *testing.T, d *datadriven.TestData, extent dataplane.Extent) driver.Observation {
	few := extent
	few.Again = r.again(t, d)
	quick, seen := r.look(t, d, few), r.look(t, d, extent)
	facts, all := quick.Facts.(driver.HostFacts), seen.Facts.(driver.HostFacts)
	told := func(f driver.HostFacts) string { return r.Facts(f) + forwarding(f) }
	if !uncounted(quick.State).Equal(uncounted(seen.State)) || told(facts) != told(all) {
		t.Errorf("%s: a look that reads %v again finds\n%s%s\nand not\n%s%s",
			d.Pos, few.Again, r.State(quick.State), r.Facts(facts), r.State(seen.State), r.Facts(all))
	}
	return seen
}

// uncounted returns a state without the counters of its packet paths.
func uncounted(s *dataplane.State) *dataplane.State {
	c := *s
	c.Running = nil
	return &c
}

// again returns the objects for a look to read again: those of the input, or of the last ops.
func (r *runner) again(t *testing.T, d *datadriven.TestData) []dataplane.Object {
	objects := append([]dataplane.Object{}, r.applied...) // not nil, which reads everything
	r.applied = nil
	for line := range lines(d.Input) {
		o, err := dataplane.ParseObject(line)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		objects = append(objects, o)
	}
	return objects
}

func (r *runner) look(t *testing.T, d *datadriven.TestData, extent dataplane.Extent) driver.Observation {
	seen, err := r.world.Driver().Look(t.Context(), extent)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	return seen
}

func parseExtent(d *datadriven.TestData) (dataplane.Extent, error) {
	var e dataplane.Extent
	for _, arg := range d.CmdArgs {
		e.Policies = e.Policies || arg.Key == "policies" && len(arg.Vals) == 0
		for _, v := range arg.Vals {
			switch arg.Key {
			case "links":
				e.Links = append(e.Links, v)
			case "networks":
				p, err := netip.ParsePrefix(v)
				if err != nil {
					return e, err
				}
				e.Networks = append(e.Networks, p)
			case "reach":
				a, err := netip.ParseAddr(v)
				if err != nil {
					return e, err
				}
				e.Reach = append(e.Reach, a)
			case "psks":
				psk, err := Secrets{}.Secret(dataplane.SecretName(v))
				if err != nil {
					return e, err
				}
				e.PSKs = append(e.PSKs, psk)
			case "keys":
				e.Keys = append(e.Keys, dataplane.SecretName(v))
			case "sysctls":
				e.Sysctls = append(e.Sysctls, dataplane.Sysctl{Path: v})
			default:
				return e, fmt.Errorf("unknown argument %q", arg.Key)
			}
		}
	}
	slices.SortFunc(e.Reach, netip.Addr.Compare)
	return e, nil
}

// lines yields the lines that are not empty or comments.
func lines(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") && !yield(line) {
				return
			}
		}
	}
}
