package echo

import (
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/probe"
)

// maxHeard is the largest number of senders to remember. Any host may send probes.
const maxHeard = 1 << 14

// ear hears the probes of other daemons in one family.
type ear struct {
	family cidr.Family
	socket *os.File
	done   chan struct{}

	mu    sync.Mutex
	heard map[netip.Addr]time.Time
}

// listen starts to listen for probes until close.
func listen(f cidr.Family) (*ear, error) {
	socket, err := open(f, echoRequest[f])
	if err != nil {
		return nil, err
	}
	e := &ear{family: f, socket: socket, done: make(chan struct{}), heard: map[netip.Addr]time.Time{}}
	go e.run()
	return e, nil
}

func (e *ear) close() error {
	err := e.socket.Close()
	<-e.done
	return err
}

// run reads until the socket is closed.
func (e *ear) run() {
	defer close(e.done)
	raw, err := e.socket.SyscallConn()
	if err != nil {
		return
	}
	buffer := make([]byte, 256) // the rest of a large packet does not matter
	for {
		err := raw.Read(func(fd uintptr) bool {
			n, from, err := unix.Recvfrom(int(fd), buffer, 0)
			if err == nil {
				e.remember(buffer[:n], from)
			}
			return err != unix.EAGAIN
		})
		if err != nil {
			return
		}
	}
}

// remember remembers the sender of a probe.
func (e *ear) remember(packet []byte, from unix.Sockaddr) {
	sender := addressOf(from)
	kind, m, ok := parse(e.family, packet)
	if !ok || kind != echoRequest[e.family] || m.host || !sender.IsValid() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.heard[sender]; known || len(e.heard) < maxHeard {
		e.heard[sender] = time.Now()
	}
}

// take returns the senders since the last call.
func (e *ear) take() []probe.Heard {
	e.mu.Lock()
	defer e.mu.Unlock()
	var heard []probe.Heard
	for from, at := range e.heard {
		heard = append(heard, probe.Heard{From: from, At: at})
	}
	clear(e.heard)
	return heard
}

func addressOf(a unix.Sockaddr) netip.Addr {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(a.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(a.Addr)
	}
	return netip.Addr{}
}
