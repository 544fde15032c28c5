package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// fake is a client with answers that a test sets.
type fake struct {
	routes []Route
	err    error    // of every call
	asked  []string // changes, in order
	unfit  error    // of Prepare
}

func (f *fake) Routes(context.Context) ([]Route, error) { return f.routes, f.err }

func (f *fake) Create(_ context.Context, table string, dst netip.Prefix) error {
	f.asked = append(f.asked, fmt.Sprintf("create %s in %s", dst, table))
	return f.err
}

func (f *fake) Delete(_ context.Context, r Route) error {
	f.asked = append(f.asked, fmt.Sprintf("delete %s %s to %s in %s", r.ID, r.Dst, r.Target, r.Table))
	return f.err
}

// preparing is a fake that needs a setting.
type preparing struct{ *fake }

func (f preparing) Prepare(context.Context) error {
	f.asked = append(f.asked, "prepare")
	return f.unfit
}

// laneOf returns a lane whose provider has a client.
func laneOf(c Client) *Lane {
	return NewLane(func(dataplane.Provider) (Client, error) { return c, nil })
}

// extent asks for a provider's tables, one of which has no entry.
func extent() dataplane.Extent {
	return dataplane.Extent{Provider: dataplane.Provider{Name: "a provider", Tables: []string{"empty"}}}
}

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }

func TestLook(t *testing.T) {
	lane := laneOf(&fake{routes: []Route{
		{Table: "b", Dst: prefix("10.5.1.0/24"), Target: "eni-1", Self: true, Custom: true, State: Active},
		{Table: "a", Dst: prefix("10.5.1.0/24"), ID: "x", Target: "eni-2", Custom: true, State: Broken},
		{Table: "a", Dst: prefix("10.5.1.0/24"), ID: "y", Target: "eni-1", Self: true, Custom: true, State: Pending},
		{Table: "a", Dst: prefix("172.16.0.0/12"), Target: "local", State: Active},
		{Table: "a", Dst: prefix("10.5.9.0/24"), Target: "eni-1", Self: true, Custom: true},
		{Table: "a", Dst: prefix("10.5.9.0/24"), Target: "eni-3", Custom: true},
		{Table: "a", Dst: prefix("10.5.9.0/24"), Target: "eni-1", Self: true, Custom: true},
	}})
	seen, err := lane.Look(t.Context(), extent())
	if err != nil {
		t.Fatal(err)
	}
	want := `cloud-route 10.5.1.0/24 table "a" id "x" to "eni-2" broken
cloud-route 10.5.1.0/24 table "a" id "y" to "eni-1" self pending
cloud-route 10.5.1.0/24 table "b" to "eni-1" self
cloud-route 10.5.9.0/24 table "a" to "eni-3"
cloud-route 172.16.0.0/12 table "a" to "local" provided
`
	if d := cmp.Diff(want, seen.State.Dump()); d != "" {
		t.Errorf("state (-want +got):\n%s", d)
	}
	if d := cmp.Diff(driver.CloudFacts{Tables: []string{"a", "b", "empty"}}, seen.Facts); d != "" {
		t.Errorf("facts (-want +got):\n%s", d)
	}
	if lane.Hints() != nil {
		t.Error("the lane has hints")
	}
}

// A look fails if an answer has an entry that cannot be a route: the client may have read the rest
// wrongly as well.
func TestOddAnswers(t *testing.T) {
	for _, r := range []Route{
		{Dst: prefix("10.5.1.0/24")}, {Table: "a"}, {Table: "a", Dst: prefix("fd00::/64")},
		{Table: "a", Dst: netip.PrefixFrom(netip.MustParseAddr("10.5.1.1"), 24)},
	} {
		if _, err := laneOf(&fake{routes: []Route{r}}).Look(t.Context(), extent()); err == nil {
			t.Errorf("%+v is taken", r)
		}
	}
}

// Changes go to the client one by one. It deletes the entry that the last look has shown.
func TestApply(t *testing.T) {
	f := &fake{routes: []Route{{Table: "a", Dst: prefix("10.5.1.0/24"), ID: "x", Target: "eni-2", Custom: true}}}
	lane := laneOf(f)
	op := func(text string) dataplane.Op {
		o, err := dataplane.ParseOp(text)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	ops := []dataplane.Op{
		op(`del cloud-route 10.5.1.0/24 table "a" id "x" to "eni-2"`), op(`add cloud-route 10.5.1.0/24 table "a" self`),
		op(`del cloud-route 10.5.1.0/24 table "b"`), op(`add addr 10.5.1.0/32 dev x`),
		op(`replace cloud-route 10.5.1.0/24 table "a" self`),
	}
	for _, err := range lane.Apply(t.Context(), ops) {
		if !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("before a look: %v", err)
		}
	}
	if _, err := lane.Look(t.Context(), extent()); err != nil {
		t.Fatal(err)
	}
	errs := lane.Apply(t.Context(), ops)
	if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], driver.ErrNotFound) ||
		!errors.Is(errs[3], driver.ErrUnsupported) || !errors.Is(errs[4], driver.ErrUnsupported) {
		t.Errorf("errors %v", errs)
	}
	want := []string{"delete x 10.5.1.0/24 to eni-2 in a", "create 10.5.1.0/24 in a"}
	if d := cmp.Diff(want, f.asked); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
}

// The core learns the class of an error and the operator the remedy. Credentials do not show,
// even if the client's error has them.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		of, class error
		want      string
	}{
		{ErrThrottled, driver.ErrBusy, "throttled by the provider: (secret)"},
		{ErrExists, driver.ErrExists, "route exists: (secret)"},
		{ErrNotFound, driver.ErrNotFound, "no such route: (secret)"},
		{ErrQuota, driver.ErrDenied, "quota of routes exceeded: (secret); " +
			"remove routes that nothing needs, or ask the provider for a higher limit"},
		{ErrDenied, driver.ErrDenied, "denied by the provider: (secret); " +
			"give this right to the role of the instance or to the owner of the access key"},
		{ErrNoIdentity, driver.ErrUnsupported, "this host is no instance of the provider: (secret); " +
			"the backend works only on an instance of the provider that its metadata service answers"},
	} {
		f := &fake{err: fmt.Errorf("%w: key-7f3a", c.of)}
		lane := laneOf(f)
		e := extent()
		e.Provider.KeySecret = dataplane.NewPassphrase("key-7f3a")
		_, err := lane.Look(t.Context(), e)
		if err == nil || err.Error() != c.want || !errors.Is(err, c.class) || !errors.Is(err, c.of) {
			t.Errorf("look: %v", err)
		}
		create := dataplane.Op{Verb: dataplane.Create, Object: dataplane.CloudRoute{
			CloudRouteKey: dataplane.CloudRouteKey{Dst: prefix("10.5.1.0/24"), Table: "a"}, Self: true}}
		err = lane.Apply(t.Context(), []dataplane.Op{create})[0]
		if err == nil || err.Error() != c.want || !errors.Is(err, c.class) {
			t.Errorf("change: %v", err)
		}
	}
}

// A client that cannot be opened is tried again, and another provider has another client.
func TestClientFollowsProvider(t *testing.T) {
	var opened []string
	fails := errors.New("this build has no such client")
	lane := NewLane(func(p dataplane.Provider) (Client, error) {
		opened = append(opened, p.Name)
		return &fake{}, fails
	})
	look := func(name string) error {
		_, err := lane.Look(t.Context(), dataplane.Extent{Provider: dataplane.Provider{Name: name}})
		return err
	}
	if err := look("a"); err == nil || err.Error() != fails.Error() {
		t.Errorf("error %v", err)
	}
	fails = nil
	for _, name := range []string{"a", "a", "b"} {
		if err := look(name); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(opened, " "); got != "a a b" {
		t.Errorf("opened %s", got)
	}
}

// The setting is made at the first look, tried again after a failure, and checked from time to
// time. A failure keeps no look from succeeding.
func TestPrepare(t *testing.T) {
	f := &fake{unfit: ErrDenied}
	lane := laneOf(preparing{f})
	look := func() string {
		seen, err := lane.Look(t.Context(), extent())
		if err != nil {
			t.Fatal(err)
		}
		return seen.Facts.(driver.CloudFacts).Unprepared
	}
	want := "the provider may drop the packets of pods: denied by the provider; " +
		"give this right to the role of the instance or to the owner of the access key"
	if got := look(); got != want {
		t.Errorf("unprepared: %s", got)
	}
	f.unfit = nil
	for range 2 * prepareEvery {
		if got := look(); got != "" {
			t.Errorf("unprepared: %s", got)
		}
	}
	if len(f.asked) != 3 {
		t.Errorf("asked %d times", len(f.asked))
	}
}
