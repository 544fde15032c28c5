package lang

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/cidr"
)

// ping performs
//
//	ping n1.pod n2.pod [size=84] [df] [ttl=64] [trace] [drop] [within=10s] | ping all [within=30s]
//	ping all outside
//	ping outside n1.pod [via=n2] | ping n1.pod outside | ping n1 n2.pod [underlay]
//
// It prints "ok src=preserved", "ok src=<the address that arrived>" or "lost";
// for all pairs "all ok src=preserved", or the number of each kind and the lost
// pairs. In the simulator, drop adds the reason of the loss, and trace the path.
func (s *Session) ping(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	trace, drop := a.flag("trace"), a.flag("drop")
	var within time.Duration
	a.duration("within", &within)
	if a.flag("all") {
		outward := a.flag("outside")
		if err := a.done(); err != nil {
			return "", err
		}
		if outward {
			return s.pingAllOutside()
		}
		return s.again(within, s.pingAll)
	}
	via, underlay := "", a.flag("underlay")
	a.text("via", &via)
	o := PingOptions{DF: a.flag("df")}
	a.integer("ttl", &o.TTL)
	a.integer("size", &o.Size)
	from, to := a.word("from"), a.word("to")
	if err := a.done(); err != nil {
		return "", err
	}
	for _, f := range s.families {
		if least := HeaderSize(f) + 1; o.Size != 0 && (o.Size < least || o.Size > 65535) {
			return "", fmt.Errorf("size=%d: want %d to 65535", o.Size, least)
		}
	}
	return s.again(within, func() (string, error) {
		return s.pingPair(func(f cidr.Family) (PingResult, error) {
			o.Family = f
			return s.pingPlaces(from, to, via, underlay, o)
		}, drop, trace)
	})
}

// pingPair sends one packet in each family and prints its outcome.
func (s *Session) pingPair(send func(cidr.Family) (PingResult, error), drop, trace bool) (string, error) {
	var lines []string
	for _, f := range s.families {
		r, err := send(f)
		if err != nil {
			return "", err
		}
		line, err := s.outcome(r)
		if err != nil {
			return "", err
		}
		if drop && r.Drop != "" {
			line += " " + r.Drop
		}
		lines = append(lines, line)
		if trace {
			lines = append(lines, r.Trace...)
		}
	}
	if !trace {
		lines = slices.Compact(lines)
	}
	return strings.Join(lines, "\n"), nil
}

// Outcome returns the fate of a packet as "ping" prints it.
func Outcome(r PingResult) string {
	switch {
	case r.Expired:
		return "expired"
	case r.TooBig:
		return "too big"
	case !r.OK:
		return "lost"
	case !r.Source.IsValid():
		return "ok"
	case r.Source == r.WantSource:
		return "ok src=preserved"
	}
	return "ok src=" + r.Source.String()
}

// again repeats pings until no packet is lost, or the limit is over. A tunnel with
// sessions loses packets until both ends have the same session.
func (s *Session) again(limit time.Duration, ping func() (string, error)) (string, error) {
	const pause = 5 * time.Second
	for ; ; limit -= pause {
		out, err := ping()
		if err != nil || limit < pause || !strings.Contains(out, "lost") {
			return out, err
		}
		s.letPass(pause)
	}
}

func (s *Session) pingAll() (string, error) {
	counts := map[string]int{}
	var bad []string
	for _, from := range s.running() {
		for _, to := range s.running() {
			if from == to {
				continue
			}
			for _, f := range s.families {
				r, err := s.world.Ping(from+".pod", to+".pod", PingOptions{Family: f})
				if err != nil {
					return "", err
				}
				counts[Outcome(r)]++
				if !r.OK {
					bad = append(bad, fmt.Sprintf("%s to %s: lost %s", from, to, r.Drop))
				}
			}
		}
	}
	if len(counts) == 1 && len(bad) == 0 {
		for o := range counts {
			return "all " + o, nil
		}
	}
	var lines []string
	for _, o := range sortedKeys(counts) {
		lines = append(lines, fmt.Sprintf("%d %s", counts[o], o))
	}
	if len(lines) == 0 {
		return "", errors.New("there are no two pods")
	}
	return strings.Join(append(lines, bad...), "\n"), nil
}

// mtu performs "mtu n1.pod n2.pod". It prints the size of the largest packet that
// passes unfragmented, in bytes.
func (s *Session) mtu(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	from, to := a.word("from"), a.word("to")
	if err := a.done(); err != nil {
		return "", err
	}
	var lines []string
	for _, f := range s.families {
		size, err := s.pathMTU(from, to, f)
		if err != nil {
			return "", err
		}
		lines = append(lines, fmt.Sprint(size))
	}
	return strings.Join(slices.Compact(lines), "\n"), nil
}

// pathMTU narrows the size down until size passes and size+1 does not.
func (s *Session) pathMTU(from, to string, f cidr.Family) (int, error) {
	passes, fails := 100, 9217
	for fails-passes > 1 {
		size := (passes + fails) / 2
		r, err := s.world.Ping(from, to, PingOptions{Family: f, Size: size, DF: true})
		if err != nil {
			return 0, err
		}
		if r.OK {
			passes = size
		} else {
			fails = size
		}
	}
	if passes == 100 {
		return 0, errors.New("not even 101 bytes pass")
	}
	return passes, nil
}

// transfer performs "transfer n1.pod n2.pod [size=1048576]".
func (s *Session) transfer(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	size := 1 << 20
	a.integer("size", &size)
	from, to := a.word("from"), a.word("to")
	if err := a.done(); err != nil {
		return "", err
	}
	streamer, err := able[Streamer](s, s.World())
	if err != nil {
		return "", err
	}
	for _, f := range s.families {
		if err := streamer.Transfer(from, to, f, int64(size)); err != nil {
			return "", err
		}
	}
	return "", nil
}

// stream performs "stream start n1.pod n2.pod [every=20ms] [steady] [ipv6]" and "stream stop
// n1.pod n2.pod [most=2] [allow=25] [ipv6]". Some moments are long enough to lose a packet only on an
// emulated machine: most is the number of packets that may be lost there. Elsewhere none
// may be lost. Some changes lose packets in every world: allow is the number that may be lost in each.
func (s *Session) stream(d *datadriven.TestData) (string, error) {
	a := newArgs(d)
	o := StreamOptions{Every: 20 * time.Millisecond}
	a.duration("every", &o.Every)
	most, allow := 0, 0
	a.integer("most", &most)
	a.integer("allow", &allow)
	o.Steady = a.flag("steady")
	if a.flag("ipv6") || !slices.Contains(s.families, cidr.V4) {
		o.Family = cidr.V6
	}
	what := a.word("start or stop")
	from := a.word("from")
	to := a.word("to")
	if err := a.done(); err != nil {
		return "", err
	}
	name := fmt.Sprint(from, " ", to, " ", o.Family)
	switch what {
	case "start":
		streamer, err := able[Streamer](s, s.World())
		if err != nil {
			return "", err
		}
		stop, err := streamer.Stream(from, to, o)
		if err != nil {
			return "", err
		}
		s.streams[name] = stop
		return "", nil
	case "stop":
		stop, ok := s.streams[name]
		if !ok {
			return "", fmt.Errorf("no stream from %s to %s", from, to)
		}
		delete(s.streams, name)
		sent, lost, err := stop()
		if err != nil {
			return "", err
		}
		if allow > 0 {
			return streamed(sent, lost, allow, true), nil
		}
		return streamed(sent, lost, most, s.slow()), nil
	}
	return "", fmt.Errorf("stream %s: want start or stop", what)
}

// streamed returns the fate of a stream as text. If some packets may be lost, up to most
// may.
func streamed(sent, lost, most int, some bool) string {
	if most > 0 && (lost == 0 || some && lost <= most) {
		return fmt.Sprintf("sent=%t lost<=%d", sent > 0, most)
	}
	return fmt.Sprintf("sent=%t lost=%d", sent > 0, lost)
}

// slow reports whether the world is slower than the machine that runs it.
func (s *Session) slow() bool {
	slow, ok := s.World().(Slow)
	return ok && slow.Stretch(time.Second) > time.Second
}

// HeaderSize returns the size of the IP and ICMP echo headers, in bytes.
func HeaderSize(f cidr.Family) int { return [2]int{20 + 8, 40 + 8}[f] }

// Pair finds the two ends of a packet by their names. Both must have an address of the family.
func Pair[T interface{ Addr(cidr.Family) netip.Addr }](
	find func(name string) (T, error), from, to string, f cidr.Family,
) (a, b T, err error) {
	a, err = find(from)
	if err != nil {
		return a, b, err
	}
	b, err = find(to)
	if err != nil {
		return a, b, err
	}
	if !a.Addr(f).IsValid() || !b.Addr(f).IsValid() {
		return a, b, fmt.Errorf("%s or %s has no %s address", from, to, f)
	}
	return a, b, nil
}
