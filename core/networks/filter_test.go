package networks

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// fake is a packet filter that performs every op.
type fake struct{ state *dataplane.State }

func (f *fake) Look(context.Context, dataplane.Extent) (driver.Observation, error) {
	return driver.Observation{State: f.state}, nil
}

func (f *fake) Apply(_ context.Context, ops []dataplane.Op) []error {
	next := f.state.Clone()
	for _, op := range ops {
		if op.Verb == dataplane.Delete {
			delete(next.Chains, op.Object.(dataplane.Chain).ChainKey)
			continue
		}
		next.Put(op.Object)
	}
	f.state = next
	return make([]error, len(ops))
}

func (f *fake) Hints() <-chan struct{} { return nil }

// The chains of two networks, alone and together.
const (
	head  = "chain iptables ipv4 "
	begin = " jump placed { "

	blueFwd = head + "forward" + begin + "from 10.5.0.0/16 to 10.6.0.0/16 drop; " +
		"from 10.5.0.0/16 accept; to 10.5.0.0/16 accept }\n"
	greenFwd = head + "forward" + begin + "from 10.6.0.0/16 to 10.5.0.0/16 drop; " +
		"from 10.6.0.0/16 accept; to 10.6.0.0/16 accept }\n"
	bothFwd = head + "forward" + begin + "from 10.5.0.0/16 to 10.6.0.0/16 drop; from 10.6.0.0/16 to 10.5.0.0/16 drop; " +
		"from 10.5.0.0/16 accept; to 10.5.0.0/16 accept; from 10.6.0.0/16 accept; to 10.6.0.0/16 accept }\n"

	blueNAT  = head + "postrouting" + begin + "mark 0x4000/0x4000 return; " + blueMasq + " }\n"
	greenNAT = head + "postrouting" + begin + "mark 0x4000/0x4000 return; " + greenMasq + " }\n"
	bothNAT  = head + "postrouting" + begin + "mark 0x4000/0x4000 return; " + blueMasq + "; " + greenMasq + " }\n"

	// A guard's last rule drops what the rules before it do not let pass.
	blueGuard  = head + "input" + begin + blueIn + " }\n"
	greenGuard = head + "input" + begin + greenIn + " }\n"
	bothGuards = head + "input" + begin + blueIn + "; " + greenIn + " }\n"

	blueIn = "of 10.5.0.0/16 in lo return; of 10.5.0.0/16 udp 8472 from 192.168.64.2/32 return; " +
		"of 10.5.0.0/16 udp 8472 drop"
	greenIn = "of 10.6.0.0/16 in lo return; of 10.6.0.0/16 udp 8473 drop"

	blueMasq  = "from !10.5.0.0/16 to 10.5.1.0/24 return; from 10.5.0.0/16 to !224.0.0.0/4 masquerade"
	greenMasq = "from !10.6.0.0/16 to 10.6.9.0/24 return; from 10.6.0.0/16 to !224.0.0.0/4 masquerade"
)

type filterWorld struct {
	t      *testing.T
	kernel *fake
	f      *Filter
	lanes  map[string]driver.Lane
}

func newFilterWorld(t *testing.T, chains string) *filterWorld {
	kernel := &fake{parse(t, chains)}
	w := &filterWorld{t, kernel, NewFilter(kernel), map[string]driver.Lane{}}
	for _, name := range []string{"blue", "green"} {
		w.lanes[name] = w.f.Join(name, nil)
	}
	return w
}

func parse(t *testing.T, text string) *dataplane.State {
	t.Helper()
	s, err := dataplane.ParseDump(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var prefixes = map[string]netip.Prefix{
	"blue": netip.MustParsePrefix("10.5.0.0/16"), "green": netip.MustParsePrefix("10.6.0.0/16"),
}

func (w *filterWorld) look(name string) string {
	w.t.Helper()
	seen, err := w.lanes[name].Look(w.t.Context(), dataplane.Extent{Networks: []netip.Prefix{prefixes[name]}})
	if err != nil {
		w.t.Fatal(err)
	}
	return seen.State.Dump()
}

func (w *filterWorld) apply(name string, verb dataplane.Verb, chain string) {
	w.t.Helper()
	for _, c := range parse(w.t, chain).Chains {
		for _, err := range w.lanes[name].Apply(w.t.Context(), []dataplane.Op{{Verb: verb, Object: c}}) {
			if err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

func (w *filterWorld) want(what, got, want string) {
	w.t.Helper()
	if d := cmp.Diff(parse(w.t, want).Dump(), got); d != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestFilterShares(t *testing.T) {
	for name, c := range map[string]struct{ blue, green, both string }{
		"forward": {blueFwd, greenFwd, bothFwd}, "postrouting": {blueNAT, greenNAT, bothNAT},
		"input": {blueGuard, greenGuard, bothGuards},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFilterWorld(t, "")
			w.want("blue at first", w.look("blue"), "")
			w.look("green")
			w.apply("green", dataplane.Replace, c.green)
			w.want("blue sees nothing of green's", w.look("blue"), "")
			w.want("green alone", w.kernel.state.Dump(), c.green)
			w.apply("blue", dataplane.Replace, c.blue)
			w.want("both", w.kernel.state.Dump(), c.both)
			w.want("blue's part", w.look("blue"), c.blue)
			w.want("green's part", w.look("green"), c.green)

			w.apply("blue", dataplane.Delete, c.blue)
			w.want("blue has gone", w.kernel.state.Dump(), c.green)
			w.apply("green", dataplane.Delete, c.green)
			w.want("both have gone", w.kernel.state.Dump(), "")
		})
	}
}

// A restart finds the rules of the former run in place, and the network that looks
// first leaves those of the other alone.
func TestFilterAfterARestart(t *testing.T) {
	w := newFilterWorld(t, bothFwd+bothNAT)
	w.want("blue's part", w.look("blue"), blueFwd+blueNAT)
	w.apply("blue", dataplane.Replace, blueFwd)
	w.want("the kernel", w.kernel.state.Dump(), bothFwd+bothNAT)
	w.want("green's part", w.look("green"), greenFwd+greenNAT)

	w = newFilterWorld(t, greenFwd)
	w.want("blue's part, before green has looked", w.look("blue"), "")
}

func TestFilterRepairs(t *testing.T) {
	stray := head + "forward" + begin + "from 10.6.0.0/16 to 10.5.0.0/16 drop; from 10.5.0.0/16 to 10.6.0.0/16 drop; " +
		"from 10.6.0.0/16 accept; to 10.6.0.0/16 accept; from 10.5.0.0/16 accept; to 10.5.0.0/16 accept; " +
		"from 10.9.0.0/16 accept }\n"
	late := head + "forward" + begin + "from 10.6.0.0/16 accept; to 10.6.0.0/16 accept; " +
		"from 10.6.0.0/16 to 10.5.0.0/16 drop; " +
		"from 10.5.0.0/16 to 10.6.0.0/16 drop; from 10.5.0.0/16 accept; to 10.5.0.0/16 accept }\n"
	for name, chain := range map[string]string{"a rule of no network": stray, "a drop behind an accept": late} {
		t.Run(name, func(t *testing.T) {
			w := newFilterWorld(t, chain)
			w.look("green")
			if got := w.look("blue"); got == parse(t, blueFwd).Dump() {
				t.Fatal("blue sees no difference")
			}
			w.apply("blue", dataplane.Replace, blueFwd)
			w.want("the kernel", w.kernel.state.Dump(), bothFwd)
		})
	}
}

// Another daemon of the host has a network in the same chains. Half of its rules belong to no daemon.
func TestFilterBesideAnotherDaemon(t *testing.T) {
	const others = "; from 10.9.0.0/16 accept; to 10.9.0.0/16 accept }\n"
	with := strings.Replace(bothFwd, " }\n", others, 1)
	w := newFilterWorld(t, with)
	w.look("green")
	w.want("blue's part", w.look("blue"), blueFwd)
	w.apply("blue", dataplane.Delete, blueFwd)
	w.want("without blue", w.kernel.state.Dump(), strings.Replace(greenFwd, " }\n", others, 1))
	w.apply("green", dataplane.Delete, greenFwd)
	w.want("the other's alone", w.kernel.state.Dump(), head+"forward"+begin+others[len("; "):])
	w.want("blue sees nothing of the other's", w.look("blue"), "")
}

// A network takes over the addresses of one that has gone, and that looks no more. A third one
// stays in the chains.
func TestFilterAfterAHandover(t *testing.T) {
	redMasq := "from !10.7.0.0/16 to 10.7.9.0/24 return; from 10.7.0.0/16 to !224.0.0.0/4 masquerade"
	red := head + "postrouting" + begin + "mark 0x4000/0x4000 return; " + redMasq + " }\n"
	both := head + "postrouting" + begin + "mark 0x4000/0x4000 return; " + blueMasq + "; " + redMasq + " }\n"
	kernel := &fake{parse(t, "")}
	w := &filterWorld{t, kernel, NewFilter(kernel), map[string]driver.Lane{}}
	for _, name := range []string{"blue", "green", "red"} {
		w.lanes[name] = w.f.Join(name, nil)
	}
	as := func(name, network string) *filterWorld {
		extent := dataplane.Extent{Networks: []netip.Prefix{netip.MustParsePrefix(network)}}
		_, err := w.lanes[name].Look(t.Context(), extent)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	as("green", "10.6.0.0/16")
	as("blue", "10.5.0.0/16").apply("blue", dataplane.Replace, blueNAT)
	as("red", "10.7.0.0/16").apply("red", dataplane.Replace, red)
	as("blue", "10.5.0.0/16").apply("blue", dataplane.Delete, blueNAT)
	as("green", "10.5.0.0/16").apply("green", dataplane.Replace, blueNAT)
	as("green", "10.5.0.0/16").want("the kernel", kernel.state.Dump(), both)
}

// A network that joins leaves the rules of all others alone, and one that has left is no part of the
// host any more.
func TestFilterOfNetworksThatComeAndGo(t *testing.T) {
	kernel := &fake{parse(t, blueFwd)}
	w := &filterWorld{t, kernel, NewFilter(kernel), map[string]driver.Lane{}}
	w.lanes["blue"] = w.f.Join("blue", nil)
	w.look("blue")
	w.lanes["green"] = w.f.Join("green", nil)
	w.look("green")
	w.apply("green", dataplane.Replace, greenFwd)
	w.want("both", kernel.state.Dump(), bothFwd)
	w.apply("green", dataplane.Delete, greenFwd)
	w.f.Leave("green")
	w.want("blue's part", w.look("blue"), blueFwd)
	w.want("blue alone", kernel.state.Dump(), blueFwd)
}
