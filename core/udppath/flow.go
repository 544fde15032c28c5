package udppath

import "encoding/binary"

const (
	flowBits  = 8
	flowSlots = 1 << flowBits
)

// flowTable holds the last run of each flow. Each flow has one slot, and takes it
// from another flow there, which only costs that one a join. A slot is valid only
// in the epoch in which it was written.
type flowTable struct {
	slots [flowSlots]flowSlot
	epoch [256]uint64 // by protocol; only those of TCP and UDP matter
}

type flowSlot struct {
	epoch     uint64
	addresses uint64
	ports     uint32
	proto     byte
	run       int32
}

// find returns the place of the number of the flow's last run, -1 if it has none
// yet. The packet must have ports.
func (t *flowTable) find(ip []byte) *int32 {
	proto := ip[9]
	addresses := binary.BigEndian.Uint64(ip[12:])
	ports := binary.BigEndian.Uint32(ip[minHeader:])
	hash := (addresses ^ uint64(ports)<<16 ^ uint64(proto)) * 0x9e3779b97f4a7c15
	s := &t.slots[hash>>(64-flowBits)]
	if epoch := t.epoch[proto]; s.epoch != epoch || s.addresses != addresses || s.ports != ports || s.proto != proto {
		*s = flowSlot{epoch: epoch, addresses: addresses, ports: ports, proto: proto, run: -1}
	}
	return &s.run
}

// forget makes all flows of a protocol start over.
func (t *flowTable) forget(proto byte) { t.epoch[proto]++ }

// clear makes all flows start over.
func (t *flowTable) clear() {
	t.forget(protoTCP)
	t.forget(protoUDP)
}
