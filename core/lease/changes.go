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

// Swapped returns the entries that only the old one of two sets has, and those that only the new
// one has. Both lists are sorted. It compares pointers, so it also finds a record that was read
// again, and what it costs beyond the first glance depends on the changed entries.
func Swapped(old, now []*Lease) (gone, came []*Lease) {
	for len(old) > 0 && len(now) > 0 {
		if old[0] == now[0] {
			old, now = old[1:], now[1:]
			continue
		}
		order := old[0].Key.Compare(now[0].Key)
		if order <= 0 {
			gone, old = append(gone, old[0]), old[1:]
		}
		if order >= 0 {
			came, now = append(came, now[0]), now[1:]
		}
	}
	return append(gone, old...), append(came, now...)
}
