package tunnel

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/udppath"
)

const (
	inMessages = 16      // for each call, each of up to 64 KiB; more gain nothing
	maxPieces  = 1024    // the most that writev accepts
	inSize     = 1 << 16 // the most of a message with UDP_GRO
)

// inbox reads packets from the socket that the kernel has joined (UDP_GRO), joins
// them further, and writes them to the device.
type inbox struct {
	*ends
	joiner  *udppath.Joiner
	memory  []byte
	froms   [inMessages]name
	iovs    [inMessages]unix.Iovec
	ctrls   [inMessages]control
	msgs    [inMessages]unix.Mmsghdr
	vnet    [udppath.VnetSize]byte
	outIovs []unix.Iovec
}

func newInbox(e *ends, uso bool) *inbox {
	in := &inbox{
		ends: e, joiner: udppath.NewJoiner(uso),
		memory:  make([]byte, inMessages*inSize),
		outIovs: make([]unix.Iovec, 0, maxPieces),
	}
	for i := range in.msgs {
		in.iovs[i] = iovec(in.buffer(i))
		setIovs(&in.msgs[i].Hdr, in.iovs[i:i+1])
	}
	return in
}

func (in *inbox) buffer(i int) []byte { return in.memory[i*inSize : (i+1)*inSize] }

func (in *inbox) receive(t *udppath.Table) outcome {
	for i := range in.msgs {
		h := &in.msgs[i].Hdr
		setName(h, &in.froms[i])
		h.Control = (*byte)(unsafe.Pointer(&in.ctrls[i]))
		h.SetControllen(int(unsafe.Sizeof(in.ctrls[i])))
	}
	n, errno := recvmmsg(in.socket, in.msgs[:])
	if errno != 0 {
		return dry
	}
	packets := 0
	for i := range in.msgs[:n] {
		packets += in.open(t, i)
	}
	if in.deliverJoined() == ended {
		return ended
	}
	if packets <= 1 {
		return dry
	}
	return busy
}

// open gives the packets of a message that are for the device to the joiner, and
// returns how many packets the message held.
func (in *inbox) open(t *udppath.Table, i int) (packets int) {
	m := &in.msgs[i]
	rest := in.buffer(i)[:m.Len]
	size := in.ctrls[i].segment(&m.Hdr)
	if size == 0 {
		size = len(rest)
	}
	for {
		packets++
		packet := in.take(t, &in.froms[i], rest[:min(size, len(rest))])
		if packet != nil {
			in.joiner.Add(packet)
		}
		if len(rest) <= size {
			return packets
		}
		rest = rest[size:]
	}
}

func (in *inbox) deliverJoined() outcome {
	result := busy
	for {
		j, ok := in.joiner.Next()
		if !ok {
			return result
		}
		if result == ended { // let the joiner finish
			continue
		}
		j.Vnet.Put(&in.vnet)
		in.outIovs = append(in.outIovs[:0], iovec(in.vnet[:]))
		for _, p := range j.Pieces {
			in.outIovs = append(in.outIovs, iovec(p))
		}
		result = in.written(writev(in.device, in.outIovs))
	}
}
