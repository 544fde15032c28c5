package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
)

// The errors that the network answers a ping with.
var (
	ErrNoReply     = errors.New("no reply")
	ErrTooBig      = errors.New("packet too big")
	ErrUnreachable = errors.New("destination unreachable")
	ErrExpired     = errors.New("time to live exceeded")
)

// PingOptions describe the echo requests to send.
type PingOptions struct {
	Source  netip.Addr    // the source address; zero: the kernel chooses
	Size    int           // of the whole IP packet, in bytes; 0 is 84
	DF      bool          // sets DF, and ignores a learnt path MTU
	TTL     int           // hops; 0 is the kernel's default
	Count   int           // the number of requests, each of which must be answered; 0 is 1
	Timeout time.Duration // for each reply; 0 is 3s, since the kernel asks for a neighbour once a second
	Follow  bool          // follows the first one through all devices of the lab
}

// PingResult is the outcome of echo requests.
type PingResult struct {
	RTT    time.Duration // the shortest
	Source netip.Addr    // the source that the destination saw; invalid if it is no pod of the lab or missed the request
	Way    []Sighting    // the way of the first one, if it was followed
	Loss   *Loss         // the loss of the first one, if it was followed and not answered
}

// echoHeader is the length of an ICMP echo's header, the same in both families.
const echoHeader = 8

func icmpKinds(f cidr.Family) icmpKind {
	if f == cidr.V4 {
		return icmpKind{"ip4:icmp", "0.0.0.0", 1, ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply}
	}
	return icmpKind{"ip6:ipv6-icmp", "::", 58, ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply}
}

// ipHeader returns the length of an IP header without options.
func ipHeader(f cidr.Family) int { return [2]int{20, 40}[f] }

// Ping sends echo requests and waits for the reply to each. Its error wraps
// ErrNoReply, ErrTooBig, ErrUnreachable or ErrExpired if the network caused it.
func (h *Host) Ping(ctx context.Context, dst netip.Addr, o PingOptions) (PingResult, error) {
	var result PingResult
	if o.Size == 0 {
		o.Size = 84
	}
	if o.Timeout == 0 {
		o.Timeout = 3 * time.Second
	}
	p, err := h.newPinger(dst, o)
	if err != nil {
		return result, fmt.Errorf("ping %s from %s: %w", dst, h.Name, err)
	}
	defer p.conn.Close()
	defer context.AfterFunc(ctx, func() { _ = p.conn.Close() })()
	first := 0
	if o.Follow {
		if err := p.trace(ctx, h, &result); err != nil {
			return result, fmt.Errorf("ping %s from %s, %d bytes: %w", dst, h.Name, o.Size, err)
		}
		first = 1
	}
	for seq := first; seq < max(o.Count, 1); seq++ {
		rtt, source, err := p.echo(ctx, seq)
		if err != nil {
			return result, fmt.Errorf("ping %s from %s, %d bytes, request %d: %w", dst, h.Name, o.Size, seq+1, err)
		}
		if seq == 0 || rtt < result.RTT {
			result.RTT = rtt
		}
		result.Source = source
	}
	return result, nil
}

// pinger sends echo requests with one id.
type pinger struct {
	conn    *icmp.PacketConn
	kind    icmpKind
	dst     netip.Addr
	id      int
	payload []byte
	timeout time.Duration
	witness *witness // the destination's witness; nil if it is no pod
}

func (h *Host) newPinger(dst netip.Addr, o PingOptions) (*pinger, error) {
	f := cidr.FamilyOf(dst)
	payload := o.Size - ipHeader(f) - echoHeader
	if payload < 0 {
		return nil, fmt.Errorf("%d bytes do not hold an echo request", o.Size)
	}
	p := &pinger{kind: icmpKinds(f), dst: dst, payload: make([]byte, payload), timeout: o.Timeout,
		id: int(h.lab.pings.Add(1) & 0xffff)}
	if o.Source.IsValid() {
		p.kind.any = o.Source.String()
	}
	if out := h.lab.Outside; out != nil && out.Addr(f) == dst {
		p.witness = out.witness
	}
	for _, pod := range h.lab.pods {
		if pod.addrs[f].Addr() == dst {
			p.witness = pod.witness
		}
	}
	return p, h.Do(func() (err error) {
		p.conn, err = icmp.ListenPacket(p.kind.network, p.kind.any)
		if err != nil {
			return fmt.Errorf("open a socket: %w", err)
		}
		if err := setFragmenting(p.conn, f, o.DF); err != nil {
			return errors.Join(err, p.conn.Close())
		}
		if o.TTL == 0 {
			return nil
		}
		if err := setTTL(p.conn, f, o.TTL); err != nil {
			return errors.Join(fmt.Errorf("set the TTL: %w", err), p.conn.Close())
		}
		return nil
	})
}

func setTTL(conn *icmp.PacketConn, f cidr.Family, ttl int) error {
	if f == cidr.V4 {
		return conn.IPv4PacketConn().SetTTL(ttl)
	}
	return conn.IPv6PacketConn().SetHopLimit(ttl)
}

// setFragmenting says whether the kernel may fragment the requests. With df it
// obeys the device's MTU but no learnt path MTU, so that each probe tests the
// path again.
func setFragmenting(conn *icmp.PacketConn, f cidr.Family, df bool) error {
	level := [2]int{unix.IPPROTO_IP, unix.IPPROTO_IPV6}
	discover := [2]int{unix.IP_MTU_DISCOVER, unix.IPV6_MTU_DISCOVER}
	value := [2]int{unix.IP_PMTUDISC_DONT, unix.IPV6_PMTUDISC_WANT}
	if df {
		value = [2]int{unix.IP_PMTUDISC_PROBE, unix.IPV6_PMTUDISC_PROBE}
	}
	var socket net.PacketConn
	if f == cidr.V4 {
		socket = conn.IPv4PacketConn().PacketConn
	} else {
		socket = conn.IPv6PacketConn().PacketConn
	}
	raw, err := socket.(syscall.Conn).SyscallConn()
	if err != nil {
		return fmt.Errorf("set up a socket: %w", err)
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), level[f], discover[f], value[f])
		if failed == nil && df && f == cidr.V6 {
			failed = unix.SetsockoptInt(int(fd), level[f], unix.IPV6_DONTFRAG, 1)
		}
	})
	err = errors.Join(err, failed)
	if err != nil {
		return fmt.Errorf("set fragmenting of %s: %w", f, err)
	}
	return nil
}

// echo sends one request and waits for its outcome.
func (p *pinger) echo(ctx context.Context, seq int) (time.Duration, netip.Addr, error) {
	echoKey{p.id, seq}.sign(p.payload)
	msg := icmp.Message{Type: p.kind.request, Body: &icmp.Echo{ID: p.id, Seq: seq, Data: p.payload}}
	packet, err := msg.Marshal(nil)
	if err != nil {
		return 0, netip.Addr{}, fmt.Errorf("marshal: %w", err)
	}
	var seen <-chan netip.Addr
	if p.witness != nil {
		var forget func()
		seen, forget = p.witness.expect(echoKey{p.id, seq})
		defer forget()
	}
	sent := time.Now()
	if err := p.conn.SetDeadline(sent.Add(p.timeout)); err != nil {
		return 0, netip.Addr{}, errors.Join(err, context.Cause(ctx))
	}
	if _, err := p.conn.WriteTo(packet, &net.IPAddr{IP: p.dst.AsSlice()}); err != nil {
		return 0, netip.Addr{}, errors.Join(classify(err), context.Cause(ctx))
	}
	if err := p.await(seq); err != nil {
		return 0, netip.Addr{}, errors.Join(err, context.Cause(ctx))
	}
	rtt := time.Since(sent)
	if seen == nil {
		return rtt, netip.Addr{}, nil
	}
	select { // answered, so it has arrived; but the witness may not have processed it yet
	case source := <-seen:
		return rtt, source, nil
	case <-time.After(p.timeout): // the kernel drops what a socket has no room for
		return rtt, netip.Addr{}, nil
	case <-ctx.Done():
		return rtt, netip.Addr{}, fmt.Errorf("wait for the destination to see it: %w", ctx.Err())
	}
}

// await reads until the reply or an error message about the request arrives.
func (p *pinger) await(seq int) error {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := p.conn.ReadFrom(buf)
		if err != nil {
			return classify(err)
		}
		m, err := icmp.ParseMessage(p.kind.protocol, buf[:n])
		if err != nil {
			continue // not for us
		}
		switch body := m.Body.(type) {
		case *icmp.Echo:
			if m.Type == p.kind.reply && body.ID == p.id && body.Seq == seq && addrOf(from) == p.dst {
				return nil
			}
		case *icmp.DstUnreach:
			if !p.quotes(body.Data, seq) {
				continue
			}
			if m.Type == ipv4.ICMPTypeDestinationUnreachable && m.Code == 4 { // fragmentation needed
				return fmt.Errorf("%w, says %s", ErrTooBig, from)
			}
			return fmt.Errorf("%w, says %s (code %d)", ErrUnreachable, from, m.Code)
		case *icmp.TimeExceeded:
			if p.quotes(body.Data, seq) {
				return fmt.Errorf("%w, says %s", ErrExpired, from)
			}
		case *icmp.PacketTooBig:
			if p.quotes(body.Data, seq) {
				return fmt.Errorf("%w, says %s, at most %d", ErrTooBig, from, body.MTU)
			}
		}
	}
}

// quotes reports whether an ICMP error quotes our request.
func (p *pinger) quotes(packet []byte, seq int) bool {
	header := ipHeader(cidr.FamilyOf(p.dst))
	if len(packet) < header+echoHeader {
		return false
	}
	echo := packet[header:]
	return int(echo[4])<<8|int(echo[5]) == p.id && int(echo[6])<<8|int(echo[7]) == seq
}

// classify maps an errno to one of the network's errors.
func classify(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrNoReply
	case errors.Is(err, unix.EMSGSIZE):
		return fmt.Errorf("%w: %w", ErrTooBig, err)
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.EINVAL),
		errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w: %w", ErrUnreachable, err) // the latter two: a blackhole or prohibit route
	}
	return err
}
