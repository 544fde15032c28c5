package lang

import (
	"fmt"
	"net/netip"
	"time"
)

// Cloud is a world whose hosts are instances of a cloud provider.
type Cloud interface {
	// DisturbCloud replaces the faults of the provider.
	DisturbCloud(CloudFaults) error
	CloudFaults() CloudFaults
	// PutCloudRoute makes an entry in each table, as any program may, or replaces the one that is there.
	PutCloudRoute(dst netip.Prefix, target string) error
	// RemoveCloudRoute deletes an entry from each table.
	RemoveCloudRoute(dst netip.Prefix) error
	// EndInstance ends the instance that a node is, or starts it again.
	EndInstance(node string, on bool) error
}

// CloudFaults disturb a provider. The zero value disturbs nothing.
type CloudFaults struct {
	Throttled float64       // probability that a request is refused for being one too many
	Denied    bool          // changes are refused
	Quota     int           // largest number of entries of a table; 0: no limit
	Slow      time.Duration // each request takes that much longer
	Stale     time.Duration // an answer may be that old
}

// faultCloud performs
//
//	fault cloud throttled chance=0.5 [heal]   the provider refuses requests
//	fault cloud denied [heal]                 it refuses changes
//	fault cloud quota most=3 [heal]           a table takes no more entries
//	fault cloud slow by=20s [heal]            requests take longer
//	fault cloud stale by=30s [heal]           answers are older than the tables
//	fault cloud ended n3 [heal]               the entries of an instance lead nowhere
//	fault cloud remove n1                     another program deletes the route of n1's subnet
//	fault cloud take n1 by=n2                 another program leads it to n2, or to any other next hop
//	fault cloud add 10.5.1.0/25 [heal]        another program makes an entry that leads to no node
func (s *Session) faultCloud(kind string, a *args) error {
	c, err := able[Cloud](s, s.World())
	if err != nil {
		return err
	}
	if set, ok := cloudSettings()[kind]; ok {
		on := !a.flag("heal")
		change := set(a)
		if err := a.done(); err != nil {
			return err
		}
		return setting(s, "cloud "+kind, on, func(on bool) error {
			f := c.CloudFaults()
			change(&f, on)
			return c.DisturbCloud(f)
		})
	}
	about, by := a.word("node or destination"), "elsewhere"
	a.text("by", &by)
	on := !a.flag("heal")
	if err := a.done(); err != nil {
		return err
	}
	switch kind {
	case "ended":
		return setting(s, "cloud ended "+about, on, func(on bool) error { return c.EndInstance(about, on) })
	case "add":
		dst, err := netip.ParsePrefix(about)
		if err != nil {
			return err
		}
		return s.lasting("cloud add "+about, on, func() error {
			if !on {
				return c.RemoveCloudRoute(dst)
			}
			return c.PutCloudRoute(dst, by)
		}, func() error { return c.RemoveCloudRoute(dst) })
	}
	r, err := s.recordOf(about)
	if err != nil {
		return err
	}
	l, _ := r.lease()
	switch kind {
	case "remove":
		return c.RemoveCloudRoute(l.Key.V4)
	case "take":
		return c.PutCloudRoute(l.Key.V4, by)
	}
	return fmt.Errorf("fault cloud %s: want throttled, denied, quota, slow, stale, ended, add, remove or take", kind)
}

// cloudSettings returns for each lasting fault of a provider a function that reads its
// arguments and returns the change of the faults.
func cloudSettings() map[string]func(*args) func(f *CloudFaults, on bool) {
	return map[string]func(*args) func(f *CloudFaults, on bool){
		"throttled": func(a *args) func(*CloudFaults, bool) {
			chance := 1.0
			a.fraction("chance", &chance)
			return func(f *CloudFaults, on bool) { f.Throttled = only(on, chance) }
		},
		"denied": func(*args) func(*CloudFaults, bool) {
			return func(f *CloudFaults, on bool) { f.Denied = on }
		},
		"quota": func(a *args) func(*CloudFaults, bool) {
			most := 1
			a.integer("most", &most)
			return func(f *CloudFaults, on bool) { f.Quota = only(on, most) }
		},
		"slow": func(a *args) func(*CloudFaults, bool) {
			by := 20 * time.Second
			a.duration("by", &by)
			return func(f *CloudFaults, on bool) { f.Slow = only(on, by) }
		},
		"stale": func(a *args) func(*CloudFaults, bool) {
			by := 30 * time.Second
			a.duration("by", &by)
			return func(f *CloudFaults, on bool) { f.Stale = only(on, by) }
		},
	}
}

// only returns a value if a fault is on, or else none.
func only[T any](on bool, value T) (v T) {
	if on {
		return value
	}
	return v
}
