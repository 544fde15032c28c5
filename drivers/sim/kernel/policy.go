package kernel

import (
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// policies are the IPsec policies of a host. A host without any has the zero value.
type policies struct {
	all dataplane.Table[dataplane.PolicyKey, dataplane.Policy]
	// sources covers the sources of all policies that there ever were: most packets of the
	// underlay are outside, and need no search.
	sources netip.Prefix
}

// applyPolicy performs an op on a policy.
func (s *stack) applyPolicy(verb dataplane.Verb, o dataplane.Policy) error {
	known := o.Dir == dataplane.PolicyIn || o.Dir == dataplane.PolicyOut || o.Dir == dataplane.PolicyForward
	switch {
	case !known:
		return fmt.Errorf("unknown direction %q: %w", o.Dir, driver.ErrInvalid)
	case !o.Src.Addr().Is4() || !o.Dst.Addr().Is4():
		return fmt.Errorf("this driver makes policies for IPv4 only: %w", driver.ErrUnsupported)
	case o.Other != "" && verb != dataplane.Delete:
		return fmt.Errorf("this driver makes no policy of form %s: %w", o.Other, driver.ErrUnsupported)
	}
	if err := possible(verb, s.policies.all.Has(o.PolicyKey)); err != nil {
		return err
	}
	if verb == dataplane.Delete {
		s.policies.all.Delete(o.PolicyKey)
		return nil
	}
	s.policies.all.Put(o)
	s.policies.widen(o.Src)
	return nil
}

// widen makes sources cover another one.
func (p *policies) widen(src netip.Prefix) {
	if !p.sources.IsValid() {
		p.sources = src.Masked()
	}
	for bits := p.sources.Bits(); !p.sources.Contains(src.Addr()) || bits > src.Bits(); {
		bits--
		p.sources = netip.PrefixFrom(p.sources.Addr(), bits).Masked()
	}
}

// observePolicies adds the policies within the extent.
func (s *stack) observePolicies(state *dataplane.State, extent dataplane.Extent) {
	if !extent.Policies {
		return
	}
	for k, p := range s.policies.all.All {
		if extent.HasPolicy(k) {
			state.AddPolicy(p)
		}
	}
}

// policyFor returns the policy for a packet: of those that select it, the one with
// the lowest priority, or the narrower one of two.
func (s *stack) policyFor(dir dataplane.Direction, src, dst netip.Addr) (dataplane.Policy, bool) {
	var best dataplane.Policy
	found := false
	if !s.policies.sources.Contains(src) {
		return best, false
	}
	for k, p := range s.policies.all.All {
		if k.Dir != dir || !k.Src.Contains(src) || !k.Dst.Contains(dst) {
			continue
		}
		if !found || p.Priority < best.Priority {
			best, found = p, true
		}
	}
	return best, found
}
