package wireguard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"

	"github.com/flanneld/flannel/core/dataplane"
)

// handshake returns a packet of a handshake that has this number at that place.
func handshake(kind uint32, size, at int, index uint32) []byte {
	packet := make([]byte, size)
	binary.LittleEndian.PutUint32(packet, kind)
	binary.LittleEndian.PutUint32(packet[at:], index)
	return packet
}

func requestOf(index uint32) []byte {
	return handshake(device.MessageInitiationType, device.MessageInitiationSize, 4, index)
}

func answerTo(index uint32) []byte {
	return handshake(device.MessageResponseType, device.MessageResponseSize, 8, index)
}

const never time.Duration = -1

// crossCase is a peer's request that crosses one of this device.
type crossCase struct {
	own, peer dataplane.PublicKey
	before    func(*crossing) // what happens between the two requests
	waits     bool
	after     func(*crossing)
	until     time.Duration // after the own request, the library gets the peer's
}

var crossPeer = newEndpoint(netip.MustParseAddrPort("192.0.2.1:51820"))

func TestRequestsWait(t *testing.T) {
	low, high := dataplane.PublicKey{1}, dataplane.PublicKey{2}
	gone := func(c *crossing) { c.removePeer(high) }
	answers := func(index uint32) func(*crossing) {
		return func(c *crossing) { c.waits(answerTo(index), crossPeer) }
	}
	full := func(c *crossing) {
		for c.waits(requestOf(9), crossPeer) {
		}
	}
	for name, c := range map[string]crossCase{
		"lower key":              {own: low, peer: high, waits: true, until: longWait},
		"higher key":             {own: high, peer: low, waits: true, until: shortWait},
		"unknown place":          {own: low, waits: true, until: shortWait},
		"long ago":               {own: low, peer: high, before: func(*crossing) { time.Sleep(longWait) }},
		"no room":                {own: low, peer: high, before: full},
		"peer removed":           {own: low, peer: high, before: gone},
		"peer removed meanwhile": {own: low, peer: high, waits: true, after: gone, until: never},
		"answered":               {own: low, peer: high, before: answers(7)},
		"answered meanwhile":     {own: low, peer: high, waits: true, after: answers(7), until: never},
		"forged answer":          {own: low, peer: high, waits: true, after: answers(8), until: longWait},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, c.run) })
	}
}

func (c crossCase) run(t *testing.T) {
	x := newCrossing()
	x.setOwn(c.own)
	if c.peer != (dataplane.PublicKey{}) {
		x.setPeer(c.peer, crossPeer.AddrPort)
	}
	start := time.Now()
	x.sends([][]byte{requestOf(7)}, crossPeer)
	if c.before != nil {
		c.before(x)
	}
	if got := x.waits(requestOf(1), crossPeer); got != c.waits {
		t.Fatalf("waits: %t, want %t", got, c.waits)
	}
	if !c.waits {
		return
	}
	if c.after != nil {
		c.after(x)
	}
	closed := make(chan struct{})
	time.AfterFunc(time.Second, func() { close(closed) })
	receive := x.receiver(closed)
	bufs, sizes, eps := [][]byte{make([]byte, 2000)}, make([]int, 1), make([]conn.Endpoint, 1)
	n, err := receive(bufs, sizes, eps)
	if c.until == never {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("received %d, %v, want nothing", n, err)
		}
		return
	}
	if n != 1 || err != nil || eps[0] != crossPeer || !bytes.Equal(bufs[0][:sizes[0]], requestOf(1)) {
		t.Errorf("received %d, %v", n, err)
	}
	if waited := time.Since(start); waited != c.until {
		t.Errorf("received after %v, want %v", waited, c.until)
	}
	if n, err := receive(bufs, sizes, eps); !errors.Is(err, net.ErrClosed) {
		t.Errorf("received %d more, %v", n, err)
	}
}
