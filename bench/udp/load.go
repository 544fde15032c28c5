package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// roles are the jobs of the processes that this command starts.
var roles = map[string]func(args []string) error{"carry": carry, "serve": serve, "send": send}

const port = 9000

// count is the number of bytes or packets that a server received while the
// client sent.
type count struct {
	Bytes, Packets uint64
	Time           time.Duration
	Trips          []time.Duration // of the client
}

// serve receives until its input ends, and prints the count.
func serve(args []string) error {
	at := net.JoinHostPort(args[1], strconv.Itoa(port))
	var c counter
	var stop io.Closer
	var err error
	if args[0] == "tcp1" || args[0] == "tcp8" {
		stop, err = c.serveTCP(at)
	} else {
		stop, err = c.serveUDP(at, args[0] == "rtt" || args[0] == "ping")
	}
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	stop.Close()
	return json.NewEncoder(os.Stdout).Encode(c.count())
}

// counter counts between the first and the last packet.
type counter struct {
	bytes, packets, first, last atomic.Int64
}

func (c *counter) add(n int) {
	now := time.Now().UnixNano()
	c.first.CompareAndSwap(0, now)
	c.last.Store(now)
	c.bytes.Add(int64(n))
	c.packets.Add(1)
}

func (c *counter) count() count {
	return count{
		Bytes: uint64(c.bytes.Load()), Packets: uint64(c.packets.Load()),
		Time: time.Duration(c.last.Load() - c.first.Load()),
	}
}

func (c *counter) serveTCP(at string) (io.Closer, error) {
	l, err := net.Listen("tcp4", at)
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				b := make([]byte, 256<<10)
				for {
					n, err := conn.Read(b)
					if err != nil {
						return
					}
					c.add(n)
				}
			}()
		}
	}()
	return l, nil
}

func (c *counter) serveUDP(at string, echo bool) (io.Closer, error) {
	addr, err := net.ResolveUDPAddr("udp4", at)
	if err != nil {
		return nil, err
	}
	conn, err := net.ListenUDP("udp4", addr)
	if err != nil {
		return nil, err
	}
	_ = conn.SetReadBuffer(4 << 20)
	go func() {
		b := make([]byte, 2048)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			c.add(n)
			if echo {
				_, _ = conn.WriteToUDPAddrPort(b[:n], from)
			}
		}
	}()
	return conn, nil
}

// send sends to a server for some time.
func send(args []string) error {
	at := net.JoinHostPort(args[1], strconv.Itoa(port))
	d, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	end := time.Now().Add(d)
	var c count
	switch args[0] {
	case "tcp1":
		err = sendTCP(at, args[3], 1, end)
	case "tcp8":
		err = sendTCP(at, args[3], 8, end)
	case "small":
		err = sendSmall(at, end)
	case "rtt":
		c.Trips, err = trips(at, end, 0)
	case "ping":
		c.Trips, err = trips(at, end, time.Millisecond)
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(c)
}

func sendTCP(at, congestion string, streams int, end time.Time) error {
	errs := make(chan error)
	dialer := net.Dialer{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		if congestion == "host" {
			return nil
		}
		set := func(fd uintptr) {
			err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, congestion)
		}
		return errors.Join(raw.Control(set), err)
	}}
	for range streams {
		go func() {
			conn, err := dialer.Dial("tcp4", at)
			if err != nil {
				errs <- err
				return
			}
			defer conn.Close()
			b := make([]byte, 256<<10)
			for err == nil && time.Now().Before(end) {
				_, err = conn.Write(b)
			}
			errs <- err
		}()
	}
	var all error
	for range streams {
		all = errors.Join(all, <-errs)
	}
	return all
}

// sendSmall sends packets of 64 bytes, headers included, as fast as they go.
func sendSmall(at string, end time.Time) error {
	conn, err := net.Dial("udp4", at)
	if err != nil {
		return err
	}
	defer conn.Close()
	b := make([]byte, 64-28)
	for i := 0; ; i++ {
		if i%256 == 0 && time.Now().After(end) {
			return nil
		}
		_, _ = conn.Write(b) // refused when a queue is full
	}
}

// trips measures round trips of one packet at a time, with a pause between them,
// and returns their median and 99th percentile.
func trips(at string, end time.Time, pause time.Duration) ([]time.Duration, error) {
	conn, err := net.Dial("udp4", at)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	runtime.GC()
	b := make([]byte, 64-28)
	var all []time.Duration
	for time.Now().Before(end) {
		time.Sleep(pause)
		start := time.Now()
		if _, err := conn.Write(b); err != nil {
			return nil, err
		}
		_ = conn.SetReadDeadline(start.Add(time.Second))
		_, err := conn.Read(b)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) { // a lost packet took a second
			return nil, err
		}
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	return []time.Duration{all[len(all)/2], all[len(all)*99/100]}, nil
}
