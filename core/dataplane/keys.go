package dataplane

import (
	"bytes"
	"cmp"
	"maps"
)

// Keys names objects of the kinds of which a host has some for every peer.
// Nil names none.
type Keys struct {
	Routes map[RouteKey]struct{}
	Neighs map[NeighKey]struct{}
	FDB    map[FDBKey]struct{}
}

// NewKeys names nothing yet.
func NewKeys() *Keys {
	return &Keys{map[RouteKey]struct{}{}, map[NeighKey]struct{}{}, map[FDBKey]struct{}{}}
}

// Len is how many objects are named.
func (k *Keys) Len() int {
	if k == nil {
		return 0
	}
	return len(k.Routes) + len(k.Neighs) + len(k.FDB)
}

// Add names what others name.
func (k *Keys) Add(o *Keys) {
	if o != nil {
		maps.Copy(k.Routes, o.Routes)
		maps.Copy(k.Neighs, o.Neighs)
		maps.Copy(k.FDB, o.FDB)
	}
}

// AddCommon names all objects of a choice; nil is none.
func (k *Keys) AddCommon(c *Common) {
	if c == nil {
		return
	}
	for g := range c.Groups {
		k.AddGroup(c.pool, g)
	}
}

// AddState names all objects of a state.
func (k *Keys) AddState(s State) {
	for key := range s.Routes {
		k.Routes[key] = struct{}{}
	}
	for key := range s.Neighs {
		k.Neighs[key] = struct{}{}
	}
	for key := range s.FDB {
		k.FDB[key] = struct{}{}
	}
}

// Unequal names the objects in which two states differ.
func Unequal(a, b State) *Keys {
	return &Keys{unequal(a.Routes, b.Routes), unequal(a.Neighs, b.Neighs), unequal(a.FDB, b.FDB)}
}

func unequal[K, V comparable](a, b map[K]V) map[K]struct{} {
	out := map[K]struct{}{}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			out[k] = struct{}{}
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			out[k] = struct{}{}
		}
	}
	return out
}

// Compare orders routes by destination.
func (k RouteKey) Compare(o RouteKey) int {
	return cmp.Or(k.Dst.Addr().Compare(o.Dst.Addr()), k.Dst.Bits()-o.Dst.Bits(), cmp.Compare(k.Metric, o.Metric))
}

// Compare orders neighbours by link and address.
func (k NeighKey) Compare(o NeighKey) int {
	return cmp.Or(cmp.Compare(k.Link, o.Link), k.IP.Compare(o.IP))
}

// Compare orders FDB entries by link and MAC.
func (k FDBKey) Compare(o FDBKey) int {
	return cmp.Or(cmp.Compare(k.Link, o.Link), bytes.Compare(k.MAC[:], o.MAC[:]))
}
