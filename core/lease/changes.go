package lease

// Changes are the differences between two sets of leases, in the order of the sets.
type Changes struct {
	Added, Changed []*Lease // as they are now
	Gone           []*Lease // as they were
}

// Compare returns the changes from one snapshot's leases to another's. Both
// lists are sorted. Most entries are the same pointer.
func Compare(old, now []*Lease) Changes {
	var c Changes
	for len(old) > 0 && len(now) > 0 {
		switch o, n := old[0], now[0]; {
		case o == n:
			old, now = old[1:], now[1:]
		case o.Key == n.Key:
			if o.ModRevision != n.ModRevision || o.CreateRevision != n.CreateRevision {
				c.Changed = append(c.Changed, n)
			}
			old, now = old[1:], now[1:]
		case o.Key.Compare(n.Key) < 0:
			c.Gone = append(c.Gone, o)
			old = old[1:]
		default:
			c.Added = append(c.Added, n)
			now = now[1:]
		}
	}
	c.Added = append(c.Added, now...)
	c.Gone = append(c.Gone, old...)
	return c
}
