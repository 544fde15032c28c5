package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/reconcile"
)

// The pace of the lane of a cloud provider's tables. A provider limits the number of
// requests of all nodes together.
const (
	cloudEvery     = 5 * time.Minute  // between two looks without a reason
	cloudPending   = 10 * time.Second // before a look at a route that is not yet in force, or a delete that may follow
	cloudFirst     = 5 * time.Second  // after a failure
	cloudThrottled = time.Minute      // after the provider asked for fewer requests
	cloudLimit     = 2 * time.Minute  // of an op: a provider takes its time
)

// cloudState holds the last look at the tables and its comparison.
type cloudState struct {
	provider dataplane.Provider // of the present backend, or of the former one while it has routes left
	aim      *dataplane.State   // that the lane follows; nil: none, and the lane begins anew
	have     *dataplane.State   // of the last look
	facts    driver.CloudFacts
	plan     reconcile.CloudPlan // of the last comparison
}

// cloudPart is the lane of a cloud provider's route tables. All nodes share these, so a
// fenced node does not even look: another node may hold the subnet.
type cloudPart struct{ n *Node }

func (p cloudPart) lane() *lane { return p.n.lanes[CloudLane] }

func (p cloudPart) pace() pace {
	first := cloudFirst
	isBusy := func(err error) bool { return errors.Is(err, driver.ErrBusy) }
	if isBusy(p.lane().lookErr) || slices.ContainsFunc(p.lane().failures, isBusy) {
		first = cloudThrottled
	}
	return pace{every: cloudEvery, hintGap: hintGap, first: first, most: cloudEvery}
}

// needed reports whether the present backend has a route in a provider's tables.
func (p cloudPart) needed() bool {
	return p.n.network.known && p.n.transition.Set().Extent().Provider.Name != ""
}

// watches returns false if no route is desired and none is left to delete.
func (p cloudPart) watches() bool { return p.n.cloud.provider.Name != "" }

func (p cloudPart) follow() bool {
	n, s := p.n, &p.n.cloud
	p.followProvider()
	aim := n.host.want.state
	switch {
	case s.provider.Name == "" || aim == nil:
		return false
	case !n.removal.begun() && (n.fenced() || n.host.want.self.Key != n.lease.self.Key):
		s.aim = nil
		return false
	case s.aim == nil || !s.aim.CloudRoutes.Equal(aim.CloudRoutes):
		p.retarget()
	}
	s.aim = aim
	return true
}

// followProvider takes over the provider of the present backend. Without one it keeps that
// of the previous backend, whose routes are still to be deleted.
func (p cloudPart) followProvider() {
	n, s := p.n, &p.n.cloud
	if !p.needed() {
		return
	}
	now := n.transition.Set().Extent().Provider
	now.Addr = s.provider.Addr
	now.Public = s.provider.Public
	if up := n.host.uplink; up.IP.IsValid() {
		now.Addr = up.IP
		now.Public = up.PublicIP
	}
	if !now.Equal(s.provider) {
		s.provider, s.aim = now, nil
	}
}

// retarget starts over for other routes. After a change to another kind of backend, peers
// that have not followed it need the present route until the next look of the lane.
func (p cloudPart) retarget() {
	l := p.lane()
	if p.needed() || p.n.removal.begun() {
		l.retarget(p.n.now)
		return
	}
	l.restart()
	l.fresh = false
	l.moved()
}

func (p cloudPart) look() Look { return Look{Extent: dataplane.Extent{Provider: p.n.cloud.provider}} }

func (p cloudPart) take(looked Looked) {
	n, s := p.n, &p.n.cloud
	s.have = looked.Seen.State
	s.facts, _ = looked.Seen.Facts.(driver.CloudFacts) // nil without a driver for the lane
	n.once(Warning, "cloud-unprepared", s.facts.Unprepared)
}

func (p cloudPart) tables() (want, have *dataplane.State) { return nil, p.n.cloud.have }

func (p cloudPart) compare() ([]dataplane.Op, bool) {
	n, s := p.n, &p.n.cloud
	if s.plan.Withheld > 0 || len(s.plan.Conflicts) > 0 {
		p.lane().moved() // the route was not there before, either
	}
	before := s.plan.Ops
	s.plan = reconcile.Cloud(s.aim, s.have, reconcile.CloudOptions{
		Networks: n.host.networks, Tables: s.facts.Tables, Sweep: s.provider.Sweeps,
		Prune: n.renderedLast() || n.removal.begun(),
	})
	if !slices.Equal(before, s.plan.Ops) {
		p.lane().restart() // the failed looks, or the last plan, were about something else
	}
	n.once(Error, "cloud-conflict", textOf(s.plan.Conflicts))
	if l := p.lane(); l.clean || l.repairs {
		n.once(Warning, "cloud-route-lost", p.lost())
	}
	if len(s.plan.Pending) > 0 || s.plan.Withheld > 0 && n.synced() {
		p.lane().lookBy(n.now.Add(cloudPending), causeRetry)
	}
	return s.plan.Ops, true
}

// lost describes the routes that another program has removed or replaced.
func (p cloudPart) lost() string {
	var texts []string
	for _, op := range p.n.cloud.plan.Ops {
		want := op.Object.(dataplane.CloudRoute)
		if op.Verb != dataplane.Create {
			continue
		}
		fate := "it is gone"
		for _, o := range p.n.cloud.plan.Ops {
			was := o.Object.(dataplane.CloudRoute)
			if o.Verb == dataplane.Delete && was.Table == want.Table && was.Dst == want.Dst {
				fate = fmt.Sprintf("in its place is %s; give each cluster of the cloud's network a Network of its own", was)
			}
		}
		texts = append(texts, fmt.Sprintf("another program has removed the route of subnet %s from table %s: %s; "+
			"making it again", want.Dst, want.Table, fate))
	}
	return strings.Join(texts, "\n")
}

// retries reports whether a plan only deletes routes that are not in the way of the node's own.
// The node is ready without that.
func (p cloudPart) retries(plan []dataplane.Op) bool {
	return !slices.ContainsFunc(plan, func(op dataplane.Op) bool { return !p.spares(op) })
}

// spares reports whether the route of the subnet is in force without an op.
func (p cloudPart) spares(op dataplane.Op) bool {
	routes := &p.n.cloud.aim.CloudRoutes
	dst := dataplane.CloudRouteKey{Dst: op.Object.(dataplane.CloudRoute).Dst}
	return op.Verb == dataplane.Delete && routes.Len() > 0 && !routes.Has(dst)
}

// leftOver is the error of an op that the node is ready without.
type leftOver struct{ error }

// failed ignores that a route exists which the look did not show: a provider's answers may
// be older than its tables. The next look shows it.
func (p cloudPart) failed(op dataplane.Op, err error) error {
	if errors.Is(err, driver.ErrExists) {
		return nil
	}
	err = fmt.Errorf("%s: %w", op, err)
	if p.n.cloud.aim != nil && p.spares(op) {
		return leftOver{err}
	}
	return err
}

// limit is the longest time of a plan.
func (cloudPart) limit(plan []dataplane.Op) time.Duration {
	return time.Duration(len(plan)) * cloudLimit
}

func (cloudPart) describe(plan []dataplane.Op) string {
	if len(plan) == 1 {
		return plan[0].String()
	}
	return fmt.Sprintf("%s and %d more", plan[0], len(plan)-1)
}

func (p cloudPart) settled() string {
	s := &p.n.cloud
	p.n.log.Over("cloud-route-lost")
	tables := strings.Join(s.facts.Tables, ", ")
	if s.aim.CloudRoutes.Len() > 0 {
		return fmt.Sprintf("the route of the subnet is in the tables: %s", tables)
	}
	if !p.needed() {
		*s = cloudState{}
		p.n.forgetOld()
	}
	return fmt.Sprintf("no route of this node is left in the tables: %s", tables)
}

// done reports whether the tables are as the host's desired state has them.
func (p cloudPart) done() bool {
	return !p.watches() || p.lane().clean && p.n.cloud.aim == p.n.host.want.state
}

func (p cloudPart) reasons() []string {
	if !p.needed() {
		return nil
	}
	s, l := &p.n.cloud, p.lane()
	var texts []string
	if l.lookErr != nil {
		texts = append(texts, fmt.Sprintf("cloud: cannot read the route tables: %v", l.lookErr))
	}
	for _, failure := range l.failures {
		if _, spared := failure.(leftOver); !spared {
			texts = append(texts, fmt.Sprintf("cloud: %v", failure))
		}
	}
	for _, c := range s.plan.Conflicts {
		texts = append(texts, fmt.Sprintf("cloud: %v", c))
	}
	for _, r := range s.plan.Pending {
		texts = append(texts, fmt.Sprintf("cloud: %s is not yet in force", r))
	}
	if len(texts) > 0 {
		return texts
	}
	switch {
	case s.aim == nil || s.have == nil:
		return []string{"cloud: the route tables have not been read yet"}
	case !l.clean:
		return []string{"cloud: the route of the subnet is not yet in the tables"}
	case len(s.facts.Tables) == 0:
		return []string{"cloud: the provider shows no route table for this host"}
	}
	return nil
}

// notes says what the driver could not prepare, for the status.
func (s *cloudState) notes() []string {
	if s.facts.Unprepared == "" {
		return nil
	}
	return []string{"cloud: " + s.facts.Unprepared}
}
