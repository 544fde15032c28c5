package kernel

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
)

// TestRead checks that a reader of the wire finds the packet in each tunnel that does not encrypt.
func TestRead(t *testing.T) {
	header := func(src, dst string, proto uint8) ipHeader {
		return ipHeader{src: netip.MustParseAddr(src), dst: netip.MustParseAddr(dst), proto: proto, ttl: 64}
	}
	pods := header("10.5.1.2", "10.5.2.2", protoTCP)
	inner := pods.packet([]byte("hello"))
	frame := func(payload func(outer *ipHeader) []byte, proto uint8) []byte {
		outer := header("192.168.64.1", "192.168.64.2", proto)
		return etherFrame(dataplane.MAC{2}, dataplane.MAC{4}, outer.packet(payload(&outer)))
	}
	datagram := func(body []byte) func(*ipHeader) []byte {
		return func(outer *ipHeader) []byte {
			d := udpDatagram{src: 1234, dst: 8472, body: body}
			return d.payload(outer)
		}
	}
	for name, one := range map[string]struct {
		frame []byte
		want  []string
	}{
		"bare":   {etherFrame(dataplane.MAC{2}, dataplane.MAC{4}, inner), []string{"10.5.1.2 10.5.2.2 "}},
		"ipip":   {frame(func(*ipHeader) []byte { return inner }, protoIPIP), []string{"10.5.1.2 10.5.2.2 ipip"}},
		"udp":    {frame(datagram(inner), protoUDP), []string{"10.5.1.2 10.5.2.2 udp"}},
		"other":  {frame(datagram([]byte("\x04\x00\x00\x00and more")), protoUDP), nil},
		"no IP":  {[]byte("short"), nil},
		"a byte": {frame(datagram([]byte{0x45}), protoUDP), nil},
		"vxlan": {frame(datagram(vxlanFrame(1, etherFrame(dataplane.MAC{6}, dataplane.MAC{8}, inner))), protoUDP),
			[]string{"10.5.1.2 10.5.2.2 vxlan"}},
	} {
		var got []string
		for _, r := range Read(one.frame) {
			if r.Src != netip.MustParseAddr("192.168.64.1") {
				got = append(got, r.Src.String()+" "+r.Dst.String()+" "+r.In)
			}
		}
		if diff := cmp.Diff(one.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
