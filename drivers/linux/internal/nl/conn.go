package nl

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// ReadSize is the room that a receive needs, in bytes: the kernel fills the
	// answers to a dump up to 32 KiB at a time, if an earlier receive had that
	// much room.
	ReadSize = 32 << 10
	// ReceiveBuffer is the size of a receive buffer in bytes; without privileges rmem_max limits it.
	ReceiveBuffer = 4 << 20
	// ackCost is the room in it that one acknowledgement with a note takes, in
	// bytes.
	ackCost = 1 << 10
	// maxBatch bounds the messages in one send, far below the send buffer's size.
	maxBatch = 512
	// dumpTries is how often to repeat a dump that the kernel calls
	// inconsistent.
	dumpTries = 10
	// patience is the time limit for an answer, which the kernel gives at once.
	patience = 30 * time.Second
)

// niceToHave are optional socket features: short acknowledgements (Linux 4.3),
// notes in them (4.12), and dumps filtered by the kernel (4.20). Readers of
// dumps filter, too.
var niceToHave = [...]int{unix.NETLINK_CAP_ACK, unix.NETLINK_EXT_ACK, unix.NETLINK_GET_STRICT_CHK}

// errInterrupted says that the tables changed during every try of a dump.
var errInterrupted = fmt.Errorf("tables kept changing while they were read: %w", unix.EAGAIN)

// Conn is a netlink socket. The kernel handles a request within the call that
// sends it, so its answers are there when that call returns.
//
// A request is written with Begin and the methods of Out, finished with
// Out.End, and sent by Do, Dump or Exchange.
type Conn struct {
	Out Encoder // the messages to send next

	fd    int
	port  uint32
	seq   uint32
	batch int
	in    []byte // reused by every receive
}

// Open opens a socket for a netlink protocol, such as unix.NETLINK_ROUTE, in
// the network namespace of the calling thread.
func Open(protocol int) (*Conn, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket: %w", err)
	}
	c := &Conn{fd: fd, in: make([]byte, 0, 2*ReadSize)}
	if err := c.setUp(); err != nil {
		return nil, errors.Join(fmt.Errorf("set up netlink socket: %w", err), unix.Close(fd))
	}
	return c, nil
}

func (c *Conn) setUp() error {
	wait := unix.NsecToTimeval(patience.Nanoseconds())
	if err := errors.Join(
		unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}),
		unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait),
	); err != nil {
		return err
	}
	for _, option := range niceToHave {
		err := unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, option, 1)
		if err != nil && err != unix.ENOPROTOOPT {
			return err
		}
	}
	if err := c.SetReceiveBuffer(ReceiveBuffer); err != nil {
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

// SetReceiveBuffer sets the room for the kernel's answers, in bytes.
func (c *Conn) SetReceiveBuffer(size int) error { return setReceiveBuffer(c.fd, size) }

// setReceiveBuffer exceeds rmem_max if the process has the privilege.
func setReceiveBuffer(fd, size int) error {
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size) == nil {
		return nil
	}
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, size)
}

// Close closes the socket.
func (c *Conn) Close() error { return unix.Close(c.fd) }

// Port returns the kernel's address of this socket. Announcements carry the
// port of the socket that caused them.
func (c *Conn) Port() uint32 { return c.port }

// Seq returns the number of the message that was begun last.
func (c *Conn) Seq() uint32 { return c.seq }

// Batch returns how many messages one Exchange may send.
func (c *Conn) Batch() int { return c.batch }

// Begin starts a message in Out.
func (c *Conn) Begin(kind, flags uint16) {
	c.seq++
	c.Out.Begin(kind, flags, c.seq)
}

// send sends and empties Out.
func (c *Conn) send() error {
	defer c.Out.reset()
	for {
		err := unix.Sendto(c.fd, c.Out.buf, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if err != unix.EINTR {
			return err
		}
	}
}

// receive appends one datagram to the in buffer and returns it.
func (c *Conn) receive(flags int) ([]byte, error) {
	if cap(c.in)-len(c.in) < ReadSize {
		grown := make([]byte, len(c.in), 2*max(cap(c.in), ReadSize))
		copy(grown, c.in)
		c.in = grown
	}
	room := c.in[len(c.in):cap(c.in)]
	for {
		n, _, err := unix.Recvfrom(c.fd, room, flags|unix.MSG_TRUNC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, err
		}
		if n > len(room) {
			return nil, fmt.Errorf("netlink answer of %d bytes exceeds the buffer of %d", n, len(room))
		}
		c.in = c.in[:len(c.in)+n]
		return room[:n], nil
	}
}

// Do sends the one message in Out. It returns the body of the kernel's answer,
// nil if there is none, or the kernel's refusal. The body is valid until the
// next request.
func (c *Conn) Do() ([]byte, error) {
	c.Out.wantAck()
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
		for m := range Messages(b) {
			if m.seq != c.seq {
				continue
			}
			if m.Kind == unix.NLMSG_ERROR {
				return body, verdict(m)
			}
			body = m.Body
		}
	}
}

// Dump sends the one message in Out and returns all messages of the answer,
// valid until the next request. It repeats the request while the kernel says
// that the answer is not consistent.
func (c *Conn) Dump() ([]byte, error) {
	request := append([]byte(nil), c.Out.buf...)
	for range dumpTries {
		c.Out.buf = append(c.Out.buf[:0], request...)
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

func (c *Conn) receiveDump() (interrupted bool, err error) {
	c.in = c.in[:0]
	for {
		b, err := c.receive(0)
		if err != nil {
			return false, err
		}
		for m := range Messages(b) {
			if m.seq != c.seq { // the late answer to a request that timed out
				c.in = c.in[:len(c.in)-len(b)]
				break
			}
			interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			switch m.Kind {
			case unix.NLMSG_ERROR, unix.NLMSG_DONE:
				return interrupted, verdict(m)
			}
		}
	}
}

// Exchange sends the messages in Out, numbered from first to Seq, and calls
// refused for each that the kernel refuses. Only the last is answered when it
// succeeds: the kernel handles messages in order, so silence about the ones
// before it is consent. An error means that answers were lost, and that the
// fate of the messages not refused is unknown.
func (c *Conn) Exchange(first uint32, refused func(i int, err error)) error {
	c.Out.wantAck()
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
			// The socket accepts no further answer until it has been emptied.
			lost, flags = err, unix.MSG_DONTWAIT
			continue
		case err == unix.EAGAIN && lost != nil:
			return lost
		case err != nil:
			return err
		}
		for m := range Messages(b) {
			if m.Kind != unix.NLMSG_ERROR || m.seq-first > c.seq-first {
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
