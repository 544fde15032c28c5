package cloud

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// prepareEvery is the number of looks from one Prepare that succeeded to the next: another
// program may take the setting back, and the call counts against the provider's limits.
const prepareEvery = 12

// Lane implements [driver.Lane] over the client of a provider. It gives no hints.
type Lane struct {
	open func(dataplane.Provider) (Client, error)

	client   Client                            // nil: not opened yet
	provider dataplane.Provider                // of the client
	prepare  int                               // looks until the next Prepare
	routes   map[dataplane.CloudRouteKey]Route // of the last look
}

var _ driver.Lane = (*Lane)(nil)

// NewLane returns the lane of whichever provider the looks ask for. Open returns the client
// of a provider. It reaches no network: a client learns about its instance when it is used.
func NewLane(open func(dataplane.Provider) (Client, error)) *Lane {
	return &Lane{open: open}
}

// Look implements [driver.Lane].
func (l *Lane) Look(ctx context.Context, extent dataplane.Extent) (driver.Observation, error) {
	if err := l.use(extent.Provider); err != nil {
		return driver.Observation{}, l.explain(err)
	}
	facts := driver.CloudFacts{Unprepared: l.prepared(ctx)}
	routes, err := l.client.Routes(ctx)
	if err != nil {
		return driver.Observation{}, l.explain(err)
	}
	tables := map[string]bool{}
	for _, id := range l.provider.Tables {
		tables[id] = true
	}
	state := dataplane.NewState()
	l.routes = map[dataplane.CloudRouteKey]Route{}
	for _, r := range routes {
		o, err := objectOf(r)
		if err != nil {
			return driver.Observation{}, err
		}
		tables[r.Table] = true
		// Of two entries that no name tells apart, the one to another next hop is in the way.
		if former, exists := state.CloudRoutes.Get(o.CloudRouteKey); exists && !former.Self {
			continue
		}
		state.AddCloudRoute(o)
		l.routes[o.CloudRouteKey] = r
	}
	facts.Tables = slices.Sorted(maps.Keys(tables))
	return driver.Observation{State: state, Facts: facts}, nil
}

// use makes sure that the client is that of a provider.
func (l *Lane) use(provider dataplane.Provider) error {
	if l.client != nil && l.provider.Equal(provider) {
		return nil
	}
	l.client, l.provider = nil, provider
	l.prepare = 0
	client, err := l.open(provider)
	if err != nil {
		return err
	}
	l.client = client
	return nil
}

// prepared makes the setting without which the instance may not forward packets, if it is
// due. It returns why that is impossible.
func (l *Lane) prepared(ctx context.Context) string {
	p, needs := l.client.(Preparer)
	if !needs {
		return ""
	}
	if l.prepare > 0 {
		l.prepare--
		return ""
	}
	if err := p.Prepare(ctx); err != nil {
		return fmt.Sprintf("the provider may drop the packets of pods: %v", l.explain(err))
	}
	l.prepare = prepareEvery - 1
	return ""
}

// objectOf returns the object that stands for an entry.
func objectOf(r Route) (dataplane.CloudRoute, error) {
	if r.Table == "" || !r.Dst.IsValid() || !r.Dst.Addr().Is4() || r.Dst != r.Dst.Masked() {
		return dataplane.CloudRoute{}, fmt.Errorf("the provider's answer has an entry that is no IPv4 route of a table: "+
			"table %q, destination %s", r.Table, r.Dst)
	}
	o := dataplane.CloudRoute{
		CloudRouteKey: dataplane.CloudRouteKey{Dst: r.Dst, Table: r.Table, ID: r.ID},
		Target:        r.Target, Self: r.Self, Provided: !r.Custom,
	}
	switch r.State {
	case Pending:
		o.Status = dataplane.CloudPending
	case Broken:
		o.Status = dataplane.CloudBroken
	}
	return o, nil
}

// Apply implements [driver.Lane].
func (l *Lane) Apply(ctx context.Context, ops []dataplane.Op) []error {
	return driver.ApplyEach(ops, func(op dataplane.Op) error { return l.explain(l.apply(ctx, op)) })
}

func (l *Lane) apply(ctx context.Context, op dataplane.Op) error {
	o, is := op.Object.(dataplane.CloudRoute)
	if !is || l.client == nil {
		return fmt.Errorf("%w in a provider's tables", driver.ErrUnsupported)
	}
	switch op.Verb {
	case dataplane.Create:
		return l.client.Create(ctx, o.Table, o.Dst)
	case dataplane.Delete:
		r, seen := l.routes[o.CloudRouteKey]
		if !seen {
			return driver.ErrNotFound
		}
		return l.client.Delete(ctx, r)
	}
	return fmt.Errorf("%s: %w", op.Verb, driver.ErrUnsupported)
}

// Hints implements [driver.Lane].
func (l *Lane) Hints() <-chan struct{} { return nil }

// classes holds the class of the core for each class of a client's errors, and the remedy.
var classes = []struct {
	of, class error
	remedy    string
}{
	{ErrThrottled, driver.ErrBusy, ""},
	{ErrExists, driver.ErrExists, ""},
	{ErrNotFound, driver.ErrNotFound, ""},
	{ErrQuota, driver.ErrDenied, "remove routes that nothing needs, or ask the provider for a higher limit"},
	{ErrDenied, driver.ErrDenied, "give this right to the role of the instance or to the owner of the access key"},
	{ErrNoIdentity, driver.ErrUnsupported, "the backend works only on an instance of the provider that its metadata " +
		"service answers"},
}

// failure is a client's error with its class and the remedy. Its text shows no credential.
type failure struct {
	text    string
	classes []error
}

// Error implements error.
func (f failure) Error() string { return f.text }

// Unwrap returns the classes. The client's error itself may show a credential.
func (f failure) Unwrap() []error { return f.classes }

// explain adds the class of the core and the remedy to a client's error.
func (l *Lane) explain(err error) error {
	if err == nil {
		return nil
	}
	f := failure{text: err.Error()}
	for _, key := range []dataplane.Passphrase{l.provider.KeySecret, l.provider.KeyID} {
		if text := key.Reveal(); text != "" {
			f.text = strings.ReplaceAll(f.text, text, fmt.Sprint(key))
		}
	}
	for _, class := range []error{driver.ErrUnsupported, driver.ErrNotFound} {
		if errors.Is(err, class) {
			f.classes = append(f.classes, class)
		}
	}
	for _, c := range classes {
		if errors.Is(err, c.of) {
			f.classes = append(f.classes, c.of, c.class)
			if c.remedy != "" {
				f.text += "; " + c.remedy
			}
			break
		}
	}
	return f
}
