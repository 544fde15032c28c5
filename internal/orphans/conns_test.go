package orphans

import (
	"errors"
	"net"
	"testing"
)

// fakeConn has a local address, and nothing else.
type fakeConn struct {
	net.Conn
	local  net.Addr
	closed bool
}

func (f *fakeConn) LocalAddr() net.Addr { return f.local }
func (f *fakeConn) Close() error        { f.closed = true; return nil }

func tcp(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 4711} }

func TestCut(t *testing.T) {
	here := []net.Addr{
		&net.IPNet{IP: net.ParseIP("127.0.0.1"), Mask: net.CIDRMask(8, 32)},
		&net.IPNet{IP: net.ParseIP("192.168.64.1"), Mask: net.CIDRMask(24, 32)},
		&net.IPNet{IP: net.ParseIP("fd00::1"), Mask: net.CIDRMask(64, 128)},
	}
	for name, c := range map[string]struct {
		local net.Addr
		err   error
		cut   bool
	}{
		"an address that is there":      {local: tcp("192.168.64.1")},
		"one of IPv6":                   {local: tcp("fd00::1")},
		"one in the other form":         {local: tcp("::ffff:192.168.64.1")},
		"one that is gone":              {local: tcp("192.168.64.2"), cut: true},
		"one of IPv6 that is gone":      {local: tcp("fd00::2"), cut: true},
		"loopback":                      {local: tcp("127.0.0.9")},
		"no TCP":                        {local: &net.UnixAddr{Name: "/run/etcd.sock"}},
		"addresses that cannot be read": {local: tcp("192.168.64.2"), err: errors.New("no netlink")},
	} {
		t.Run(name, func(t *testing.T) {
			raw := &fakeConn{local: c.local}
			s := &Conns{Addrs: func() ([]net.Addr, error) { return here, c.err }}
			s.Keep(raw)
			want := 0
			if c.cut {
				want = 1
			}
			if n := s.Cut(); n != want || raw.closed != c.cut {
				t.Errorf("%d cut, closed: %t", n, raw.closed)
			}
			if n := s.Cut(); c.cut && n != 0 {
				t.Errorf("%d cut again", n)
			}
		})
	}
}

// TestClosed checks that a connection leaves the set when its user closes it.
func TestClosed(t *testing.T) {
	s := &Conns{Addrs: func() ([]net.Addr, error) { return nil, nil }}
	raw := &fakeConn{local: tcp("192.168.64.2")}
	if err := s.Keep(raw).Close(); err != nil || !raw.closed {
		t.Fatal("not closed", err)
	}
	if n := s.Cut(); n != 0 {
		t.Errorf("%d cut", n)
	}
}

// TestHostAddresses checks that Cut reads the addresses of this host if Addrs is nil.
func TestHostAddresses(t *testing.T) {
	s := &Conns{}
	s.Keep(&fakeConn{local: tcp("203.0.113.77")}) // on no host
	s.Keep(&fakeConn{local: tcp("::1")})
	if n := s.Cut(); n != 1 {
		t.Errorf("%d cut, want 1", n)
	}
}
