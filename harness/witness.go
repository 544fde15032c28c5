package harness

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/net/icmp"

	"github.com/flanneld/flannel/core/cidr"
)

// icmpKind holds the differences between the families in an echo.
type icmpKind struct {
	network  string    // for icmp.ListenPacket
	any      string    // every local address
	protocol int       // IANA number
	request  icmp.Type // echo request
	reply    icmp.Type // echo reply
}

// witness sees the echo requests that reach a pod, with their source.
type witness struct {
	conns []*icmp.PacketConn

	mu   sync.Mutex
	want map[echoKey]chan<- netip.Addr
}

// echoKey identifies an echo request and its reply.
type echoKey struct{ id, seq int }

// mark follows the key in a request's data; by it the tap recognises the packet
// on any device.
const mark = "flannel lab"

const keyLength = 4 + len(mark)

// sign writes the key into the first bytes of a request's data, where there is
// room: masquerading may change the id.
func (k echoKey) sign(data []byte) []byte {
	if len(data) >= 4 {
		binary.BigEndian.PutUint16(data, uint16(k.id))
		binary.BigEndian.PutUint16(data[2:], uint16(k.seq))
		copy(data[4:], mark)
	}
	return data
}

// keyOf returns the key of a request as it was sent.
func keyOf(e *icmp.Echo) echoKey {
	if len(e.Data) < 4 {
		return echoKey{e.ID, e.Seq}
	}
	return echoKey{int(binary.BigEndian.Uint16(e.Data)), int(binary.BigEndian.Uint16(e.Data[2:]))}
}

func newWitness(h *Host) (*witness, error) {
	w := &witness{want: map[echoKey]chan<- netip.Addr{}}
	return w, eachFamily(func(f cidr.Family) error {
		kind := icmpKinds(f)
		return h.Do(func() error {
			conn, err := icmp.ListenPacket(kind.network, kind.any)
			if err != nil {
				return fmt.Errorf("listen for %s echo requests: %w", f, err)
			}
			w.conns = append(w.conns, conn)
			go w.watch(conn, kind)
			return nil
		})
	})
}

// watch tells the waiting pingers about arrivals, until the socket is closed.
func (w *witness) watch(conn *icmp.PacketConn, kind icmpKind) {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an earlier packet's error, which does not end the socket
		}
		m, err := icmp.ParseMessage(kind.protocol, buf[:n])
		if err != nil || m.Type != kind.request {
			continue
		}
		if echo, ok := m.Body.(*icmp.Echo); ok {
			w.tell(keyOf(echo), addrOf(from))
		}
	}
}

func (w *witness) tell(key echoKey, from netip.Addr) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if to, ok := w.want[key]; ok {
		delete(w.want, key)
		to <- from // has room: it is asked for once
	}
}

// expect returns a channel that receives the source of that echo request when it
// arrives, and a function that ends the wait.
func (w *witness) expect(key echoKey) (<-chan netip.Addr, func()) {
	seen := make(chan netip.Addr, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.want[key] = seen
	return seen, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.want, key)
	}
}

func (w *witness) close() error {
	var errs []error
	for _, c := range w.conns {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// addrOf returns the address of a peer on a raw socket.
func addrOf(a net.Addr) netip.Addr {
	ip, ok := a.(*net.IPAddr)
	if !ok {
		return netip.Addr{}
	}
	addr, _ := netip.AddrFromSlice(ip.IP)
	return addr.Unmap()
}
