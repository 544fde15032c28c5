package kernel

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"
)

// pcapWriter writes frames in the classic pcap file format with nanoseconds,
// which every reader since libpcap 1.5 understands.
type pcapWriter struct {
	out io.Writer
	buf []byte
}

const (
	pcapMagic    = 0xa1b23c4d // nanoseconds, in the writer's byte order
	pcapSnapLen  = 262144
	pcapEthernet = 1 // LINKTYPE_ETHERNET
)

// newPcap writes the file's header.
func newPcap(out io.Writer) (*pcapWriter, error) {
	b := binary.LittleEndian.AppendUint32(nil, pcapMagic)
	b = binary.LittleEndian.AppendUint16(b, 2) // version 2.4
	b = binary.LittleEndian.AppendUint16(b, 4)
	b = append(b, make([]byte, 8)...) // time zone and accuracy, always zero
	b = binary.LittleEndian.AppendUint32(b, pcapSnapLen)
	b = binary.LittleEndian.AppendUint32(b, pcapEthernet)
	if _, err := out.Write(b); err != nil {
		return nil, fmt.Errorf("write pcap header: %w", err)
	}
	return &pcapWriter{out: out}, nil
}

// write appends a frame.
func (p *pcapWriter) write(at time.Time, frame []byte) error {
	b := binary.LittleEndian.AppendUint32(p.buf[:0], uint32(at.Unix()))
	b = binary.LittleEndian.AppendUint32(b, uint32(at.Nanosecond()))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(frame)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(frame)))
	p.buf = append(b, frame...)
	if _, err := p.out.Write(p.buf); err != nil {
		return fmt.Errorf("write pcap record: %w", err)
	}
	return nil
}
