package udppath

const (
	maxJoined    = 512 // well below the 1024 pieces that writev takes
	maxJoinedUDP = 64  // Linux takes no more as one UDP_L4 packet
)

// Joined is a packet for the TUN device, in consecutive pieces. The kernel cuts
// it into the packets from which it was joined.
type Joined struct {
	Vnet   Vnet
	Pieces [][]byte // valid until the next call
}

// Joiner joins runs of packets of one flow into one packet each, for one write
// and one passage through the kernel instead of dozens. The caller adds the
// packets of one batch and then takes the joined ones. The joiner changes headers
// in place, keeps the packets until it has handed out the last, and keeps the
// order of packets within a flow.
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
		// It may belong to any flow of its protocol, and no packet may overtake it.
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

// join adds a packet to a run if it is the next one in all respects. It verifies
// checksums last, since that reads the payload. Without them the kernel would
// make a corrupt packet valid.
func (j *Joiner) join(r *run, next shape, index int32) bool {
	packet := j.packets[index].packet
	first := j.packets[r.first].packet
	if !r.follows(first, next, packet) {
		return false
	}
	r.verified = r.verified || verify(first)
	if !r.verified || !verify(packet) {
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
	j.packets, j.runs = j.packets[:0], j.runs[:0]
	j.next = 0
	j.flows.clear()
}
