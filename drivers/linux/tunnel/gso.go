package tunnel

import "github.com/flanneld/flannel/core/udppath"

// gso carries packets that the kernel joined or left whole, in both directions,
// over a device with virtio-net headers.
type gso struct {
	*inbox
	out *outbox
}

func newGSO(e *ends, uso bool) *gso { return &gso{inbox: newInbox(e, uso), out: newOutbox(e)} }

func (g *gso) send(t *udppath.Table) outcome { return g.out.send(t) }

func (g *gso) fallback() fallback { return g.out.sender.fallback() }
