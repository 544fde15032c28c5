package lang

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
)

// breaking performs one kind of fault on a node. It must read all its arguments.
type breaking func(s *Session, name string, n Node, a *args, input string) error

// breakings returns the kinds of faults, by the word that follows the node's name.
func breakings() map[string]breaking {
	return map[string]breaking{
		"link": faultLink, "flush": faultFlush, "uplink": faultUplink, "carrier": faultCarrier, "sysctl": faultSysctl,
		"divert": faultDivert, "forwarding": faultForwarding,
		"add": faultObjects(Kernel.Add), "remove": faultObjects(Kernel.Remove), "shadow": faultShadow,
		"exchange": faultObjects(exchange), "replace": faultObjects(Kernel.Replace),
		"unroute": faultUnroute, "default-route": faultDefaultRoute, "nic": faultNIC,
		"index": faultIndex, "ops": faultOps, "looks": faultLooks, "hints": faultHints,
		"port": faultPort, "pods": faultPods, "block": faultBlock, "checksums": faultChecksums,
		"cut": faultParted(Partitioner.Cut, "cut"), "isolate": faultParted(Partitioner.Isolate, "isolate"),
		"part": faultPart, "wire": faultWire,
		"kill": faultKill, "suspend": faultSuspend, "clock": faultClock, "file": faultFile, "second": faultSecond,
		"reboot": faultReboot, "churn": faultChurn, "key": faultKey,
		"firewall": faultFirewall, "node": faultNode, "ike": faultIKE, "commands": faultCommands, "nat": faultNAT,
		"tun":     faultTUN,
		"rival":   faultRival,
		"request": faultRequest, "token": faultToken, "denied": faultDenied,
	}
}

// FaultNames lists the kinds of faults on a node.
func FaultNames() []string { return sortedKeys(breakings()) }

// fault performs "fault n2 KIND …" with a function of breakings, "fault segment0
// wire …" on all wires of the segment, and "fault cloud KIND …".
func (s *Session) fault(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	name, kind := a.word("node"), a.word("kind of fault")
	if kind == "wire" && strings.HasPrefix(name, "segment") {
		return "", s.faultSegment(name, a)
	}
	if strings.HasPrefix(name, "server") {
		return "", s.faultServer(name, kind, a)
	}
	if name == "cloud" {
		return "", s.faultCloud(kind, a)
	}
	n, err := s.world.Node(name)
	if err != nil {
		return "", err
	}
	do, known := breakings()[kind]
	if !known {
		return "", fmt.Errorf("fault %s: want one of %s", kind, strings.Join(sortedKeys(breakings()), ", "))
	}
	return "", do(s, name, n, a, d.Input)
}

// lasting starts or ends a fault that lasts until the heal. While it lasts, undo
// is among the functions that heal calls.
func (s *Session) lasting(what string, on bool, do, undo func() error) error {
	delete(s.undo, what)
	if on {
		s.undo[what] = undo
	}
	err := do()
	if errors.Is(err, ErrNothingDone) {
		delete(s.undo, what) // do has changed nothing
	}
	return err
}

// setting is lasting for a fault that is a setting of the world. The zero value
// ends it.
func setting[T comparable](s *Session, what string, to T, set func(T) error) error {
	var none T
	return s.lasting(what, to != none, func() error { return set(to) }, func() error { return set(none) })
}

// ErrNothingDone is the error of a world that could not perform a fault: there is
// nothing to undo.
var ErrNothingDone = errors.New("nothing was done")

// The faults that keep the store itself from answering, as undo names them.
const (
	storeStopped  = "store"
	storeNoLeader = "leaderless store"
)

// healOrder lists the lasting faults in the order in which heal undoes them:
// first those of the store itself, since undoing some of the others writes to it.
func (s *Session) healOrder() []string {
	store := []string{storeStopped, storeNoLeader}
	others := slices.DeleteFunc(sortedKeys(s.undo), func(what string) bool { return slices.Contains(store, what) })
	store = slices.DeleteFunc(store, func(what string) bool { return s.undo[what] == nil })
	return append(store, others...)
}

// heal undoes every lasting fault and starts every daemon that was started
// before: cut and isolated nodes, uplinks, the store, paused and killed daemons.
// As an operator would, it deletes records that do not decode, and records left
// by a second daemon or by a duplicate address. flanneld itself must repair the
// hosts.
func (s *Session) heal(d *datadriven.TestData) (string, error) {
	if err := newArgs(d).done(); err != nil {
		return "", err
	}
	for _, what := range s.healOrder() {
		if err := s.undo[what](); err != nil {
			return "", fmt.Errorf("undo %s: %w", what, err)
		}
		delete(s.undo, what)
	}
	if err := errors.Join(s.sweep(), s.sweepDoubled()); err != nil {
		return "", err
	}
	return "", s.each(sortedKeys(s.started), func(name string, n Node) error {
		s.started[name] = true
		if err := resume(s, n); err != nil || n.Running() {
			return err
		}
		return n.Start(nil)
	})
}

// sweep deletes all records that do not decode.
func (s *Session) sweep() error {
	records, err := s.world.Store().Records()
	if err != nil {
		return err
	}
	for _, r := range records {
		if _, ok := r.lease(); !ok {
			if err := s.world.Store().Delete("subnets/" + r.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepDoubled deletes the other records in the name of a node that is one
// machine again, and those under an address that it does not have any more. No node
// deletes them before their TTL ends: a node considers a record with its address its
// own, from an earlier run, and one with another address that of a host with a copy of its files.
func (s *Session) sweepDoubled() error {
	records, err := s.world.Store().Records()
	if err != nil {
		return err
	}
	held := map[string]lease.Lease{} // by doubled node
	owned := s.owned(records)
	for _, r := range owned {
		if !r.valid || !s.doubled[r.owner] {
			continue
		}
		holder, err := nodeWith[LeaseHolder](s, r.owner)
		if err != nil {
			return err
		}
		if holder.Holds() == r.lease.Key {
			held[r.owner] = r.lease
		}
	}
	for i, r := range owned {
		name := r.owner
		if r.valid && !slices.Contains(s.top.NodeNames(), name) {
			name = ofSameData(r.lease, held)
		}
		if !s.doubled[name] || held[name].Key == r.lease.Key {
			continue
		}
		if err := s.world.Store().Delete("subnets/" + records[i].Name); err != nil {
			return err
		}
	}
	clear(s.doubled)
	return nil
}

// ofSameData names the node that holds a lease with the data of another one, such as its
// public key; empty: none does.
func ofSameData(l lease.Lease, held map[string]lease.Lease) string {
	for _, name := range sortedKeys(held) {
		for _, f := range cidr.Families {
			data := held[name].Attrs.Data(f)
			if len(data) > 0 && bytes.Equal(data, l.Attrs.Data(f)) {
				return name
			}
		}
	}
	return ""
}
