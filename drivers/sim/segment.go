package sim

// Segment is an Ethernet underlay.
type Segment struct{}
