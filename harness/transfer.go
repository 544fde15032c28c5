package harness

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"github.com/flanneld/flannel/core/cidr"
)

// PathMTU finds the size of the largest IP packet that reaches dst from the
// pod unfragmented and is answered.
func (p *Pod) PathMTU(ctx context.Context, dst netip.Addr) (int, error) {
	high, err := p.MTU()
	if err != nil {
		return 0, err
	}
	try := func(size int) (bool, error) {
		_, err := p.Ping(ctx, dst, PingOptions{Size: size, DF: true, Timeout: time.Second, Count: 1})
		if errors.Is(err, ErrTooBig) || errors.Is(err, ErrNoReply) {
			return false, context.Cause(ctx)
		}
		return err == nil, err
	}
	if fits, err := try(high + 1); fits || err != nil {
		return 0, errors.Join(fmt.Errorf("path MTU from %s to %s: a packet above the device's MTU of %d: sent %v",
			p.Name, dst, high, fits), err)
	}
	if _, err := p.Ping(ctx, dst, PingOptions{}); err != nil {
		return 0, fmt.Errorf("path MTU: %w", err)
	}
	// Sizes that fit lie below those that do not. Mostly the device's MTU is
	// the path's.
	low, high := 84, high+1
	for guess := high - 1; low+1 < high; guess = (low + high) / 2 {
		fits, err := try(guess)
		if err != nil {
			return 0, fmt.Errorf("path MTU from %s to %s: %w", p.Name, dst, err)
		}
		if fits {
			low = guess
		} else {
			high = guess
		}
	}
	return low, nil
}

// TransferResult is the outcome of a TCP transfer that arrived unchanged.
type TransferResult struct {
	Source   netip.Addr // the source that the receiver saw
	Duration time.Duration
}

// Transfer sends bytes to another pod over TCP and checks that the same bytes
// arrive.
func (p *Pod) Transfer(ctx context.Context, to *Pod, f cidr.Family, bytes int64) (TransferResult, error) {
	result, err := p.transfer(ctx, to, f, bytes)
	if err != nil {
		return result, fmt.Errorf("transfer %d bytes from %s to %s over %s: %w", bytes, p.Name, to.Name, f,
			errors.Join(err, context.Cause(ctx)))
	}
	return result, nil
}

// received is the outcome of a transfer at the receiver.
type received struct {
	sum  [sha256.Size]byte
	from netip.Addr
	err  error
}

func (p *Pod) transfer(ctx context.Context, to *Pod, f cidr.Family, bytes int64) (TransferResult, error) {
	var result TransferResult
	listener, err := to.Listen(netip.AddrPortFrom(to.Addr(f), 0))
	if err != nil {
		return result, err
	}
	defer listener.Close()
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	got := make(chan received, 1)
	go func() { got <- receive(ctx, listener) }()

	started := time.Now()
	conn, err := p.Dial(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return result, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(conn, sum), rand.NewChaCha8([32]byte{}), bytes); err != nil {
		return result, err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return result, err
	}
	r := <-got
	if r.err != nil {
		return result, r.err
	}
	if r.sum != [sha256.Size]byte(sum.Sum(nil)) {
		return result, errors.New("the bytes received differ from those sent")
	}
	return TransferResult{Source: r.from, Duration: time.Since(started)}, nil
}

// receive accepts one connection and reads it to its end.
func receive(ctx context.Context, listener net.Listener) received {
	conn, err := listener.Accept()
	if err != nil {
		return received{err: err}
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	sum := sha256.New()
	_, err = io.Copy(sum, conn)
	from := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr()
	return received{sum: [sha256.Size]byte(sum.Sum(nil)), from: from.Unmap(), err: err}
}
