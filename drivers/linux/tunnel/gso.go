package tunnel

import "github.com/flanneld/flannel/core/udppath"

// gso carries what the kernel joined or left whole, in both directions, of a
// device with virtio-net headers.
type gso struct {
	*inbox
	out *outbox
}

func newGSO(e *ends, uso bool) *gso { return &gso{inbox: newInbox(e, uso), out: newOutbox(e)} }

func (g *gso) send(t *udppath.Table) outcome { return g.out.send(t) }

func (g *gso) demotion() demotion { return g.out.post.demotion() }
