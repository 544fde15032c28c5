package charon

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/drivers/sim/world"
)

// message passes between two daemons. The real ones encrypt all but the first exchange.
type message struct {
	Kind      kind
	Initiator uint64 // the initiator's number of the IKE SA
	Responder uint64 // the other side's number; 0 in the first request, which has to ask for it
	Number    uint32 // of an exchange about an established tunnel; the answer repeats it
	LocalNet  netip.Prefix
	RemoteNet netip.Prefix
	ESP       string
	UDP       bool
	SPI       uint32 // of ESP
	Nonce     uint64
	Proof     uint64
	First     bool // the sender has no tunnel with the receiver (INITIAL_CONTACT)
}

// kind says what a message is about.
type kind string

// The kinds of messages. The first two are IKE_SA_INIT, the next two IKE_AUTH, the others
// INFORMATIONAL (RFC 7296 section 1).
const (
	hello     kind = "hello"
	helloBack kind = "hello-back"
	ask       kind = "ask"
	agree     kind = "agree"
	refuse    kind = "refuse"
	alive     kind = "alive"
	aliveBack kind = "alive-back"
	remove    kind = "delete"
)

// The pauses of the real daemon: a request is sent again after 4 s, then after pauses that
// grow by 1.8 each, five times in all. The sender gives up 165 s after the first time.
const (
	resendFirst  = 4 * time.Second
	resendGrowth = 1.8
	resendTries  = 5
)

// request is a request that has no answer yet.
type request struct {
	timer *world.Event
}

// cancel ends a request, if there is one.
func (r *request) cancel() {
	if r != nil {
		r.timer.Cancel()
	}
}

// request sends the same message again and again (RFC 7296 section 2.1) until the
// request is cancelled, or calls giveUp in the end.
func (d *daemon) request(k dataplane.ConnKey, m message, giveUp func()) *request {
	r := &request{}
	pause, left := resendFirst, resendTries
	var again func()
	again = func() {
		if left < 0 {
			giveUp()
			return
		}
		d.send(k, m)
		r.timer = d.host.World().After(pause, d.host.Name()+": charon", again)
		pause = time.Duration(float64(pause) * resendGrowth)
		left--
	}
	again()
	return r
}

func (d *daemon) send(k dataplane.ConnKey, m message) {
	m.LocalNet, m.RemoteNet = k.LocalNet, k.RemoteNet
	body, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("charon: %v", err)) // every message can be encoded
	}
	d.socket.Send(k.Local, netip.AddrPortFrom(k.Remote, portIKE), body)
}

// receive handles a message.
func (d *daemon) receive(from netip.AddrPort, to netip.Addr, body []byte) {
	var m message
	if d.ended || json.Unmarshal(body, &m) != nil {
		return
	}
	k := dataplane.ConnKey{Local: to, LocalNet: m.RemoteNet, RemoteNet: m.LocalNet, Remote: from.Addr()}
	switch m.Kind {
	case hello:
		d.greeted(k, m)
	case ask:
		d.asked(k, m)
	case helloBack, agree, refuse:
		if c := d.conns[k]; c != nil && c.asking != nil && c.asking.awaits(m) {
			d.answered(c, m)
		}
	case alive, aliveBack, remove:
		if t := d.tunnelBy(k, m); t != nil {
			d.informed(t, m)
		}
	}
}
