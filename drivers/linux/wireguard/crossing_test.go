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

// crossCase is a request that crosses the one of this device, whose index is 7.
type crossCase struct {
	index  uint32
	before func(*crossing) // what happens between the two requests
	waits  bool
	after  func(*crossing)
	until  time.Duration // after the own request, the library gets the other's
	then   []uint32      // and these others
}

var crossPeer = newEndpoint(netip.MustParseAddrPort("192.0.2.1:51820"))

func TestRequestsWait(t *testing.T) {
	answers := func(index uint32) func(*crossing) {
		return func(c *crossing) { c.waits(answerTo(index), crossPeer) }
	}
	const later = 20 * time.Millisecond
	asksAgain := func(index uint32) func(*crossing) {
		return func(c *crossing) {
			time.Sleep(later)
			c.sends([][]byte{requestOf(index)}, crossPeer)
		}
	}
	another := func(c *crossing) {
		if !c.waits(requestOf(9), crossPeer) {
			t.Error("an earlier request does not wait")
		}
	}
	many := func(c *crossing) {
		for range maxOfSender {
			another(c)
		}
	}
	full := func(c *crossing) {
		for i := range uint16(maxWaiting) {
			other := newEndpoint(netip.AddrPortFrom(crossPeer.Addr(), i))
			c.sends([][]byte{requestOf(7)}, other)
			if !c.waits(requestOf(9), other) {
				t.Error("a request does not wait")
			}
		}
	}
	for name, c := range map[string]crossCase{
		"own index lower":     {index: 8, waits: true, until: longWait},
		"own index higher":    {index: 6, waits: true, until: shortWait},
		"long ago":            {index: 8, before: func(*crossing) { time.Sleep(longWait) }},
		"another waits":       {index: 8, before: another, waits: true, until: longWait, then: []uint32{9}},
		"many wait":           {index: 8, before: many},
		"others, answered":    {index: 8, before: another, waits: true, after: answers(7), until: never},
		"no room":             {index: 8, before: full},
		"answered":            {index: 8, before: answers(7)},
		"answered meanwhile":  {index: 8, waits: true, after: answers(7), until: never},
		"asked again, lower":  {index: 8, waits: true, after: asksAgain(5), until: later + longWait},
		"asked again, higher": {index: 8, waits: true, after: asksAgain(9), until: later + shortWait},
		"forged answer":       {index: 8, waits: true, after: answers(8), until: longWait},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, c.run) })
	}
}

func (c crossCase) run(t *testing.T) {
	x := newCrossing()
	start := time.Now()
	x.sends([][]byte{requestOf(7)}, crossPeer)
	if c.before != nil {
		c.before(x)
	}
	if got := x.waits(requestOf(c.index), crossPeer); got != c.waits {
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
	bufs := [][]byte{make([]byte, 2000)}
	sizes, eps := make([]int, 1), make([]conn.Endpoint, 1)
	if c.until != never {
		n, err := receive(bufs, sizes, eps)
		if n != 1 || err != nil || eps[0] != crossPeer || !bytes.Equal(bufs[0][:sizes[0]], requestOf(c.index)) {
			t.Errorf("received %d, %v", n, err)
		}
		if waited := time.Since(start); waited != c.until {
			t.Errorf("received after %v, want %v", waited, c.until)
		}
	}
	for _, index := range c.then {
		if n, err := receive(bufs, sizes, eps); n != 1 || err != nil || !bytes.Equal(bufs[0][:sizes[0]], requestOf(index)) {
			t.Errorf("received %d more, %v, want request %d", n, err, index)
		}
	}
	if n, err := receive(bufs, sizes, eps); !errors.Is(err, net.ErrClosed) {
		t.Errorf("received %d more, %v", n, err)
	}
}

// TestAskedIsBounded asks more hosts than are remembered.
func TestAskedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrossing()
		for i := range 3 * maxAsked {
			c.sends([][]byte{requestOf(7)}, newEndpoint(netip.AddrPortFrom(crossPeer.Addr(), uint16(i))))
			time.Sleep(time.Millisecond)
		}
		if len(c.asked) > maxAsked {
			t.Errorf("%d hosts are remembered", len(c.asked))
		}
	})
}
