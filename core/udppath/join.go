package udppath

const (
	maxJoined    = 512 // well below the 1024 pieces that writev takes
	maxJoinedUDP = 64  // what Linux takes as one UDP_L4 packet
)

// Joined is a packet for the TUN device: the pieces, one after the other, are
// one packet, of which the kernel makes those again that it was joined from.
type Joined struct {
	Vnet   Vnet
	Pieces [][]byte // valid until the next call
}

// Joiner makes runs of one flow into one packet each, for one write and one
// passage through the kernel instead of dozens. It is given the packets of one
// batch and then asked for what became of them. It changes headers in place, and
// keeps the packets until the last was handed out. Packets of one flow leave in
// the order in which they came.
type Joiner struct {
	udp     bool
	packets []piece
	runs    []run
	flows   flowTable
	next    int // of runs, to hand out
	pieces  [][]byte
}

// piece is one packet, and the next in its run.
type piece struct {
	packet []byte
	next   int32
}

// NewJoiner returns a joiner. It joins UDP datagrams only if the kernel takes
// them as one (UDP_L4).
func NewJoiner(udp bool) *Joiner { return &Joiner{udp: udp} }

// Add takes the packet of a verdict to deliver.
func (j *Joiner) Add(packet []byte) {
	index := int32(len(j.packets))
	j.packets = append(j.packets, piece{packet: packet, next: -1})
	next := shapeOf(packet, j.udp)
	if next.proto == 0 {
		// It may be of any flow of its protocol, and none may overtake it.
		j.flows.forget(packet[9])
		j.begin(next, index)
		return
	}
	at := j.flows.find(packet)
	if *at >= 0 && j.join(&j.runs[*at], next, index) {
		return
	}
	*at = int32(len(j.runs))
	j.begin(next, index)
}

// begin makes a packet the first of a run.
func (j *Joiner) begin(s shape, index int32) {
	j.runs = append(j.runs, run{shape: s, size: s.bytes, count: 1, first: index, last: index})
}

// join adds a packet to a run if it is the next one in all respects. Checksums
// come last, since they cost a look at the payload; without them a corrupt
// packet would come out of the kernel as a valid one.
func (j *Joiner) join(r *run, next shape, index int32) bool {
	packet := j.packets[index].packet
	first := j.packets[r.first].packet
	if !r.follows(first, next, packet) {
		return false
	}
	if !r.verified {
		if r.verified = verify(first); !r.verified {
			return false
		}
	}
	if !verify(packet) {
		return false
	}
	j.packets[r.last].next = index
	r.take(next, index)
	return true
}

// Next hands out the next packet. After the last one the joiner is empty and
// ready for the next batch.
func (j *Joiner) Next() (Joined, bool) {
	if j.next == len(j.runs) {
		j.reset()
		return Joined{}, false
	}
	r := &j.runs[j.next]
	j.next++
	first := j.packets[r.first].packet
	j.pieces = append(j.pieces[:0], first)
	if r.count == 1 {
		return Joined{Pieces: j.pieces}, true
	}
	for i := j.packets[r.first].next; i >= 0; i = j.packets[i].next {
		j.pieces = append(j.pieces, j.packets[i].packet[r.header:])
	}
	return Joined{Vnet: r.finish(first, j.packets[r.last].packet), Pieces: j.pieces}, true
}

func (j *Joiner) reset() {
	j.packets, j.runs, j.next = j.packets[:0], j.runs[:0], 0
	j.flows.clear()
}
