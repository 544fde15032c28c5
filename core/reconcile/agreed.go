package reconcile

import (
	"slices"

	"github.com/flanneld/flannel/core/dataplane"
)

// Agreed is a host that was found to be as it should be: of routes, neighbours
// and FDB entries it held all that was wanted, and some that are not ours. From
// then on only what was touched since needs to be compared:
//
//	Diff(want, have) = Diff(want|touched, have|touched)
//
// for every want and every host that agree outside of what was touched, unless
// a link of ours is to be made or changed, which may take anything along.
type Agreed struct {
	Generation uint64 // the driver's for the host as it was
	want       *dataplane.Layers
	others     dataplane.State // what else was there
	assumed    bool            // it was the driver that compared
}

// Agree takes note of a whole host for which the plan was empty.
func Agree(want *dataplane.Layers, have dataplane.State) *Agreed {
	return &Agreed{Generation: have.Generation, want: want, others: dataplane.State{
		Routes: unwanted(want.Routes(), have.Routes),
		Neighs: unwanted(want.Neighs(), have.Neighs),
		FDB:    unwanted(want.FDB(), have.FDB),
	}}
}

func unwanted[K, V comparable](want dataplane.Table[K, V], have map[K]V) map[K]V {
	m := map[K]V{}
	for k, v := range have {
		if !want.Has(k) {
			m[k] = v
		}
	}
	return m
}

// Assume is the agreement of a host of which a driver says that it is as wanted
// but for what has changed, as it names what it compared ([dataplane.Extent]).
// It holds for this one look.
func Assume(want *dataplane.Layers) *Agreed { return &Agreed{want: want, assumed: true} }

// Diff returns the plan for a host of which have holds what has changed since
// the agreement, and the agreement from then on; nil if there is none. It says
// no if the host has to be read as a whole.
func (a *Agreed) Diff(want *dataplane.Layers, have dataplane.State, opts Options) (Plan, *Agreed, bool) {
	if want == a.want && have.Generation == a.Generation {
		return Plan{}, a, true // as empty as it was
	}
	touched := dataplane.NewKeys()
	touched.Add(have.Changed)
	part := dataplane.Layers{}
	if want != a.want {
		part.Common = a.moved(want, touched)
	}
	have = a.complete(have, touched)
	part.Own = want.Only(touched)
	plan := DiffLayers(part, have, opts)
	if slices.ContainsFunc(plan.Ops, func(op dataplane.Op) bool { _, is := op.Object.(dataplane.Link); return is }) {
		return Plan{}, nil, false
	}
	switch {
	case plan.Empty():
	case a.assumed:
		return plan, nil, true
	default:
		return plan, a, true // what is touched only grows until they agree again
	}
	return plan, &Agreed{Generation: have.Generation, want: want, others: dataplane.State{
		Routes: remaining(want.Routes(), a.others.Routes, have.Routes, touched.Routes),
		Neighs: remaining(want.Neighs(), a.others.Neighs, have.Neighs, touched.Neighs),
		FDB:    remaining(want.FDB(), a.others.FDB, have.FDB, touched.FDB),
	}}, true
}

// moved names in touched what may differ between what was wanted and what is
// now, but for what has only come in addition and meets nothing that is
// touched or there: that it returns, may it be thousands of objects.
func (a *Agreed) moved(want *dataplane.Layers, touched *dataplane.Keys) (came *dataplane.Common) {
	touched.AddState(a.want.Own)
	touched.AddState(want.Own)
	before, now := a.want.Common, want.Common
	if before == nil || now == nil || before.Pool() != now.Pool() {
		touched.AddCommon(before)
		touched.AddCommon(now)
		return nil
	}
	touched.AddCommon(before.Beyond(now))
	came = now.Beyond(before)
	others := dataplane.NewKeys()
	others.AddState(a.others)
	for _, k := range []*dataplane.Keys{touched, others} {
		for g := range now.Pool().With(k) {
			came = came.But(g)
		}
	}
	for g := range now.Beyond(before).Beyond(came).Groups {
		touched.AddGroup(now.Pool(), g)
	}
	return came
}

// complete adds to what has changed on the host what else was touched.
func (a *Agreed) complete(have dataplane.State, touched *dataplane.Keys) dataplane.State {
	changed := have.Changed
	if changed == nil {
		changed = &dataplane.Keys{}
	}
	have.Routes = now(a.want.Routes(), a.others.Routes, have.Routes, touched.Routes, changed.Routes)
	have.Neighs = now(a.want.Neighs(), a.others.Neighs, have.Neighs, touched.Neighs, changed.Neighs)
	have.FDB = now(a.want.FDB(), a.others.FDB, have.FDB, touched.FDB, changed.FDB)
	return have
}

// now looks each touched key up where it was seen last.
func now[K, V comparable](want dataplane.Table[K, V], others, read map[K]V, touched, changed map[K]struct{}) map[K]V {
	m := make(map[K]V, len(touched))
	for k := range touched {
		v, ok := read[k]
		if _, is := changed[k]; !is {
			if v, ok = want.Get(k); !ok {
				v, ok = others[k]
			}
		}
		if ok {
			m[k] = v
		}
	}
	return m
}

// remaining are the objects that are not wanted, among them those touched.
func remaining[K, V comparable](want dataplane.Table[K, V], others, have map[K]V, touched map[K]struct{}) map[K]V {
	m := make(map[K]V, len(others))
	for k, v := range others {
		if _, is := touched[k]; !is {
			m[k] = v
		}
	}
	for k, v := range have {
		if !want.Has(k) {
			m[k] = v
		}
	}
	return m
}
