package sim

// Segment is an Ethernet underlay.
type Segment struct{}

// Wire is what connects a link with a segment.
type Wire struct{ segment *Segment }

func (s *Segment) detach(w *Wire) {}

type fragKey struct{}
type reassembly struct{}
