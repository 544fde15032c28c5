package invariants

import "time"

const (
	// writeSpan is the time over which writes are counted.
	writeSpan = time.Minute
	// fewWrites is the number of writes within that time for which a node needs no cause: peers that
	// change the backend in turn, or lost answers, make it write now and then. None of 250 seeds
	// needed more than ten.
	fewWrites = 30
	// writesPerCause is how many more a node may make for each cause: for another config it may
	// delete its record, create another one, and take four steps of a change of the backend.
	writesPerCause = 6
)

// pen counts the writes of a node, over all its processes.
type pen struct {
	since  time.Duration // when the present span began
	writes int           // since then
	causes int           // of the world, before the span
}

// noteWrite bounds how often a client writes to the store: a node, or "" for another program and the
// end of a TTL. A cause is anything that the nodes did not do themselves: a step of the scenario, a
// write by another program. A node's write is no cause for another node: no two of them may
// make each other write again and again.
func (i *Invariants) noteWrite(client, what string) {
	n := i.nodes[client]
	if n == nil {
		i.causes++
		return
	}
	p, now := &n.pen, i.elapsed()
	if now-p.since >= writeSpan {
		*p = pen{since: now, causes: i.causes}
	}
	p.writes++
	if most := fewWrites + writesPerCause*(i.causes-p.causes); p.writes > most {
		i.broken("writes-rest", "%s wrote %d times to the datastore within %s, the last time %s; %d would be plenty",
			n.name, p.writes, now-p.since, what, most)
	}
}
