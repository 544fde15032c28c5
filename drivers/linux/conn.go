package linux

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readSize is how much room a receive is given: the kernel fills answers
	// to a dump up to 32 KiB at a time, if it has seen that much room.
	readSize = 32 << 10
	// rcvBuf is asked for; an unprivileged user gets what rmem_max allows.
	rcvBuf = 4 << 20
	// ackCost is what one queued acknowledgement with a note takes of it.
	ackCost = 1 << 10
	// maxBatch bounds one send, well below what a send buffer holds.
	maxBatch = 512
	// dumpTries is how often a dump is started over when the kernel says that
	// its tables changed meanwhile.
	dumpTries = 10
	// patience bounds a wait for an answer that the kernel gives at once.
	patience = 30 * time.Second
)

// niceToHave are short acknowledgements (Linux 4.3), notes in them (4.12) and
// dumps filtered by the kernel (4.20). Whoever reads a dump filters, too.
var niceToHave = [...]int{unix.NETLINK_CAP_ACK, unix.NETLINK_EXT_ACK, unix.NETLINK_GET_STRICT_CHK}

// errInterrupted says that a dump never came out consistent.
var errInterrupted = errors.New("tables kept changing while they were read")

// conn is an rtnetlink socket. The kernel handles a request within the call
// that sends it, so answers are there when send returns.
type conn struct {
	fd    int
	port  uint32 // the kernel's address of this socket, marks what it caused
	seq   uint32
	batch int    // how many messages may be unanswered
	in    []byte // reused by every receive
	out   encoder
}

// openConn opens a socket in the network namespace of the calling thread.
func openConn() (*conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	c := &conn{fd: fd, in: make([]byte, 0, 2*readSize)}
	if err := c.setUp(); err != nil {
		return nil, errors.Join(fmt.Errorf("set up netlink socket: %w", err), unix.Close(fd))
	}
	return c, nil
}

func (c *conn) setUp() error {
	wait := unix.NsecToTimeval(patience.Nanoseconds())
	if err := errors.Join(
		unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
	); err != nil {
		return err
	}
	for _, option := range niceToHave {
		if err := unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, option, 1); err != nil && err != unix.ENOPROTOOPT {
			return err
		}
	}
	if err := growReceiveBuffer(c.fd); err != nil {
		return err
	}
	size, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVBUF)
	if err != nil {
		return err
	}
	c.batch = max(1, min(maxBatch, size/ackCost))
	self, err := unix.Getsockname(c.fd)
	if err != nil {
		return err
	}
	c.port = self.(*unix.SockaddrNetlink).Pid
	return nil
}

// growReceiveBuffer goes past rmem_max where it may.
func growReceiveBuffer(fd int) error {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, rcvBuf) == nil {
		return nil
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, rcvBuf)
}

func (c *conn) close() error { return unix.Close(c.fd) }

// begin starts a message in the out buffer.
func (c *conn) begin(kind, flags uint16) {
	c.seq++
	c.out.begin(kind, flags, c.seq)
}

// send sends what is in the out buffer and empties it.
func (c *conn) send() error {
	defer c.out.reset()
	for {
		err := unix.Sendto(c.fd, c.out.buf, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if err != unix.EINTR {
			return err
		}
	}
}

// receive appends one datagram to the in buffer and returns it.
func (c *conn) receive(flags int) ([]byte, error) {
	if cap(c.in)-len(c.in) < readSize {
		grown := make([]byte, len(c.in), 2*max(cap(c.in), readSize))
		copy(grown, c.in)
		c.in = grown
	}
	room := c.in[len(c.in):cap(c.in)]
	for {
		n, _, err := unix.Recvfrom(c.fd, room, flags|unix.MSG_TRUNC)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case n > len(room):
			return nil, fmt.Errorf("netlink answer of %d bytes exceeds the buffer of %d", n, len(room))
		default:
			c.in = c.in[:len(c.in)+n]
			return room[:n], nil
		}
	}
}

// do sends the one message in the out buffer and returns the body of its
// answer, if it has one, or what the kernel had against it.
func (c *conn) do() ([]byte, error) {
	native.PutUint16(c.out.buf[c.out.lastFlags():], native.Uint16(c.out.buf[c.out.lastFlags():])|unix.NLM_F_ACK)
	if err := c.send(); err != nil {
		return nil, err
	}
	c.in = c.in[:0]
	var body []byte
	for {
		b, err := c.receive(0)
		if err != nil {
			return nil, err
		}
		for m := range messages(b) {
			switch {
			case m.seq != c.seq:
			case m.kind == unix.NLMSG_ERROR:
				return body, verdict(m)
			default:
				body = m.body
			}
		}
	}
}

// dump sends the one message in the out buffer and returns all messages of
// the answer, valid until the next request. It starts over while the kernel
// says that what it gave is not one consistent picture.
func (c *conn) dump() ([]byte, error) {
	request := append([]byte(nil), c.out.buf...)
	for range dumpTries {
		c.out.buf = append(c.out.buf[:0], request...)
		if err := c.send(); err != nil {
			return nil, err
		}
		interrupted, err := c.receiveDump()
		if err != nil {
			return nil, err
		}
		if !interrupted {
			return c.in, nil
		}
	}
	return nil, errInterrupted
}

func (c *conn) receiveDump() (interrupted bool, err error) {
	c.in = c.in[:0]
	for {
		b, err := c.receive(0)
		if err != nil {
			return false, err
		}
		for m := range messages(b) {
			if m.seq != c.seq { // left over from a request that timed out
				c.in = c.in[:len(c.in)-len(b)]
				break
			}
			interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			switch m.kind {
			case unix.NLMSG_ERROR, unix.NLMSG_DONE:
				return interrupted, verdict(m)
			}
		}
	}
}

// verdict reads an NLMSG_ERROR or NLMSG_DONE message: an errno, 0 for success,
// and perhaps a note.
func verdict(m message) error {
	if len(m.body) < 4 {
		return nil
	}
	errno := int32(native.Uint32(m.body))
	if errno >= 0 {
		return nil
	}
	e := kernelError{errno: unix.Errno(-errno)}
	if m.flags&unix.NLM_F_ACK_TLVS == 0 {
		return e
	}
	at := 4
	if m.kind == unix.NLMSG_ERROR { // the header of the request comes between
		at += headerLen
	}
	if at > len(m.body) {
		return e
	}
	for kind, value := range attrs(m.body[at:]) {
		if kind == unix.NLMSGERR_ATTR_MSG {
			e.note = text(value)
		}
	}
	return e
}

// exchange sends the messages in the out buffer, numbered from first to the
// connection's seq, and calls refused for each that the kernel refuses. Only
// the last is answered when it succeeds: messages are handled in order, so
// silence about the ones before it is consent. An error means that answers
// were lost, and that nothing is known of those not refused.
func (c *conn) exchange(first uint32, refused func(i int, err error)) error {
	at := c.out.lastFlags()
	native.PutUint16(c.out.buf[at:], native.Uint16(c.out.buf[at:])|unix.NLM_F_ACK)
	if err := c.send(); err != nil {
		return err
	}
	var lost error
	flags := 0
	for {
		c.in = c.in[:0]
		b, err := c.receive(flags)
		switch {
		case err == unix.ENOBUFS:
			// The socket takes no further answer until it has been emptied.
			lost, flags = err, unix.MSG_DONTWAIT
			continue
		case err == unix.EAGAIN && lost != nil:
			return lost
		case err != nil:
			return err
		}
		for m := range messages(b) {
			if m.kind != unix.NLMSG_ERROR || m.seq-first > c.seq-first {
				continue
			}
			if err := verdict(m); err != nil {
				refused(int(m.seq-first), err)
			}
			if m.seq == c.seq {
				return lost
			}
		}
	}
}
