package nl

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReceiveDump feeds a connection the possible answers of a kernel to a
// dump.
func TestReceiveDump(t *testing.T) {
	const seq = 7
	datagram := func(kind, flags uint16, seq uint32, body ...byte) []byte {
		e := Encoder{}
		e.Begin(kind, flags, seq)
		e.U8(body...)
		e.End()
		return e.buf
	}
	done := datagram(unix.NLMSG_DONE, 0, seq, 0, 0, 0, 0)
	noEntry := Native.AppendUint32(nil, ^uint32(unix.ENOENT)+1)
	for _, c := range []struct {
		name        string
		datagrams   [][]byte
		messages    int
		interrupted bool
		err         error
	}{
		{name: "empty", datagrams: [][]byte{done}, messages: 1},
		{name: "two parts", datagrams: [][]byte{
			append(datagram(unix.RTM_NEWLINK, 0, seq, 1, 2, 3, 4), datagram(unix.RTM_NEWLINK, 0, seq)...),
			append(datagram(unix.RTM_NEWLINK, 0, seq), done...),
		}, messages: 4},
		{name: "interrupted", datagrams: [][]byte{datagram(unix.RTM_NEWLINK, unix.NLM_F_DUMP_INTR, seq), done},
			messages: 2, interrupted: true},
		{name: "interrupted at the end", messages: 1, interrupted: true, datagrams: [][]byte{
			datagram(unix.NLMSG_DONE, unix.NLM_F_DUMP_INTR, seq, 0, 0, 0, 0),
		}},
		{name: "left from before", datagrams: [][]byte{
			datagram(unix.RTM_NEWLINK, 0, seq-1), datagram(unix.NLMSG_DONE, 0, seq-1, 0, 0, 0, 0), done,
		}, messages: 1},
		{name: "refused", datagrams: [][]byte{datagram(unix.NLMSG_ERROR, 0, seq, noEntry...)}, messages: 1, err: unix.ENOENT},
		{name: "failed at the end", datagrams: [][]byte{datagram(unix.NLMSG_DONE, 0, seq, noEntry...)}, messages: 1,
			err: unix.ENOENT},
	} {
		t.Run(c.name, func(t *testing.T) {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(pair[0])
			defer unix.Close(pair[1])
			for _, d := range c.datagrams {
				if _, err := unix.Write(pair[1], d); err != nil {
					t.Fatal(err)
				}
			}
			conn := &Conn{fd: pair[0], seq: seq}
			interrupted, err := conn.receiveDump()
			if interrupted != c.interrupted || !errors.Is(err, c.err) {
				t.Errorf("interrupted %v, error %v; want %v, %v", interrupted, err, c.interrupted, c.err)
			}
			n := 0
			for range Messages(conn.in) {
				n++
			}
			if n != c.messages {
				t.Errorf("%d messages, want %d", n, c.messages)
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	e := Encoder{}
	for _, m := range []struct {
		kind   uint16
		family byte
	}{{unix.RTM_NEWROUTE, unix.AF_INET}, {unix.RTM_NEWROUTE, unix.AF_INET6}, {unix.RTM_NEWADDR, unix.AF_INET6}} {
		e.Begin(m.kind, 0, 1)
		e.U8(m.family, 0, 0, 0)
		e.End()
	}
	n := 0
	for body := range Answers(e.buf, unix.RTM_NEWROUTE, unix.AF_INET6) {
		if body[0] != unix.AF_INET6 {
			t.Errorf("family %d", body[0])
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d answers, want 1", n)
	}
}

// FuzzVerdict: no message of a kernel crashes the reader of verdicts.
func FuzzVerdict(f *testing.F) {
	e := Encoder{}
	e.Begin(unix.NLMSG_ERROR, unix.NLM_F_ACK_TLVS, 1)
	e.U32(^uint32(unix.EINVAL) + 1)
	e.AttrString(unix.NLMSGERR_ATTR_MSG, "because")
	e.End()
	f.Add(e.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		for m := range Messages(b) {
			_ = verdict(m)
		}
	})
}
