package node

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
)

// fakeFirewall is a firewall that performs every op.
type fakeFirewall struct {
	facts  driver.FirewallFacts
	chains *dataplane.State
	err    error                    // of looks
	refuse func(dataplane.Op) error // of changes
	busy   bool                     // it does not answer

	looks int
	plans [][]dataplane.Op
}

// perform does what the node asks of the firewall, and reports whether it asked
// for anything.
func (f *fakeFirewall) perform(e LaneEffects, in *LaneInput) bool {
	if f.busy {
		return false
	}
	if e.Look != nil {
		f.looks++
		have, err := dataplane.ParseDump(f.chains.Dump())
		in.Looked = &Looked{Seen: driver.Observation{Facts: f.facts, State: have}, Err: errors.Join(err, f.err)}
	}
	if e.Plan != nil {
		f.plans = append(f.plans, e.Plan)
		in.Applied = &Applied{Errs: f.apply(e.Plan)}
	}
	return e.Look != nil || e.Plan != nil
}

func (f *fakeFirewall) apply(ops []dataplane.Op) []error {
	errs := make([]error, len(ops))
	for i, op := range ops {
		c := op.Object.(dataplane.Chain)
		if f.refuse != nil {
			errs[i] = f.refuse(op)
		}
		if errs[i] != nil {
			continue
		}
		if op.Verb == dataplane.Delete {
			delete(f.chains.Chains, c.ChainKey)
		} else {
			f.chains.AddChain(c)
		}
	}
	return errs
}

// bothFlavours lets a host have all tools.
func (f *fakeFirewall) bothFlavours() {
	usable := driver.Tool{Usable: true}
	for _, family := range cidr.Families {
		f.facts.Tools[family] = driver.Tools{IPTables: usable, NFTables: usable, BridgeFilter: true}
	}
}

func withRules(o *Options) { o.Firewall = firewall.Options{Masquerade: true, Forward: true} }

// guarded returns a node with a firewall, come to rest.
func guarded(t *testing.T, mod ...func(*Options)) *world {
	w := newWorld(t, vxlanConfig, append([]func(*Options){withRules}, mod...)...)
	w.firewall.bothFlavours()
	w.tell()
	w.wantReady()
	return w
}

func (w *world) chains() string { return w.firewall.chains.Dump() }

func TestRulesAreMadeAndKept(t *testing.T) {
	w := guarded(t)
	made := w.chains()
	if strings.Count(made, "chain iptables ipv4") != 2 ||
		!strings.Contains(made, "from "+w.own().Key.V4.String()+" to 10.5.0.0/16 return") {
		t.Fatalf("chains:\n%s", made)
	}
	for name, harm := range map[string]func(){
		"flushed": func() { clear(w.firewall.chains.Chains) },
		"a jump moved": func() {
			for k, c := range w.firewall.chains.Chains {
				c.Jump = dataplane.Moved
				w.firewall.chains.Chains[k] = c
			}
		},
		"a stray rule": func() {
			for k, c := range w.firewall.chains.Chains {
				c.Other = "-p tcp -j DROP"
				w.firewall.chains.Chains[k] = c
			}
		},
	} {
		harm()
		w.pass(5 * time.Second) // the default of --iptables-resync
		if d := w.chains(); d != made {
			t.Errorf("%s: not healed:\n%s", name, d)
		}
	}
	plans := len(w.firewall.plans)
	w.pass(time.Minute)
	if len(w.firewall.plans) != plans {
		t.Errorf("with nothing wrong, chains are written: %v", w.firewall.plans[plans:])
	}
	looks := w.firewall.looks
	w.pass(50 * time.Second)
	if w.firewall.looks < looks+10 || w.firewall.looks > looks+16 {
		t.Errorf("%d looks in 50 s, want one every 3.3 to 5 s", w.firewall.looks-looks)
	}
}

func TestHintHealsAtOnce(t *testing.T) {
	w := guarded(t)
	w.pass(2 * time.Second)
	clear(w.firewall.chains.Chains)
	w.run(hint(FirewallLane))
	w.pass(100 * time.Millisecond)
	if len(w.firewall.chains.Chains) != 2 {
		t.Errorf("not healed a debounce after the hint:\n%s", w.chains())
	}
	looks := w.firewall.looks
	for range 100 {
		w.run(hint(FirewallLane))
		w.pass(10 * time.Millisecond)
	}
	if w.firewall.looks > looks+3 {
		t.Errorf("a storm of hints led to %d looks in a second", w.firewall.looks-looks)
	}
}

func TestFlavourSwitchLeavesNoGap(t *testing.T) {
	w := guarded(t)
	w.snap.Config.Data = []byte(`{"Network":"10.5.0.0/16","EnableNFTables":true,"Backend":{"Type":"vxlan"}}`)
	w.snap.Config.Revision++
	w.firewall.refuse = func(op dataplane.Op) error {
		if op.Verb == dataplane.Replace {
			return driver.ErrBusy
		}
		return nil
	}
	plans := len(w.firewall.plans)
	w.rev++
	w.snap.Revision = w.rev
	w.tell()
	w.pass(10 * time.Second)
	if d := w.chains(); strings.Count(d, "chain iptables") != 2 || strings.Contains(d, "nftables") {
		t.Errorf("the old flavour went before the new one stood:\n%s", d)
	}
	if w.status().Ready {
		t.Error("ready without the rules that the config wants")
	}
	w.firewall.refuse = nil
	w.pass(time.Minute)
	if d := w.chains(); strings.Count(d, "chain nftables") != 2 || strings.Contains(d, "iptables") {
		t.Errorf("not switched:\n%s", d)
	}
	last := w.firewall.plans[len(w.firewall.plans)-1]
	if len(w.firewall.plans) < plans+3 || last[0].Verb != dataplane.Delete {
		t.Errorf("plans: %v", w.firewall.plans[plans:])
	}
	w.wantReady()
}

// F3: what went wrong with the firewall keeps the node from being ready.
func TestFirewallTroubleEndsReadiness(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(*fakeFirewall)
		want string
		kind string
	}{
		"a refused change": {func(f *fakeFirewall) { f.refuse = func(dataplane.Op) error { return driver.ErrDenied } },
			"firewall: replace iptables ipv4 forward: permission denied", "firewall-failed"},
		"an unreadable table": {func(f *fakeFirewall) { f.err = errors.New("iptables-save: exit status 4") },
			"firewall: cannot read its rules: iptables-save: exit status 4", "firewall-look-failed"},
		"no tools": {func(f *fakeFirewall) { f.facts.Tools = [2]driver.Tools{} },
			"firewall: IPv4: neither iptables nor nft can be used: ; ; install one of them, or turn off --ip-masq and " +
				"--iptables-forward-rules", "firewall-problem"},
		"no answer": {func(f *fakeFirewall) { f.busy = true }, "firewall: the rules are not yet as desired", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, vxlanConfig, withRules)
			w.firewall.bothFlavours()
			c.harm(&w.firewall)
			w.tell()
			w.pass(20 * time.Second)
			s := w.status()
			if s.Ready || !slices.Contains(s.Reasons, c.want) {
				t.Errorf("reasons %q, want %q", s.Reasons, c.want)
			}
			if len(w.host.Links) == 0 || w.files[SubnetFile] == "" {
				t.Error("the rest of the host waited for the firewall")
			}
			if c.kind != "" && w.count(c.kind) != 1 {
				t.Errorf("%s logged %d times", c.kind, w.count(c.kind))
			}
		})
	}
}

func TestForeignDropIsNamed(t *testing.T) {
	w := guarded(t)
	w.firewall.facts.Blocks = []driver.ForwardBlock{{Family: cidr.V4, By: "chain inet strict forward"}}
	w.pass(5 * time.Second)
	const want = "firewall: IPv4 packets to be forwarded are dropped by chain inet strict forward, which no chain of " +
		"iptables can overrule; accept packets from and to 10.5.0.0/16 there"
	if s := w.status(); s.Ready || !slices.Contains(s.Reasons, want) {
		t.Errorf("reasons %q", s.Reasons)
	}
	if !strings.Contains(w.log(), "chain inet strict forward") {
		t.Errorf("not in the log:\n%s", w.log())
	}
	w.firewall.facts.Blocks = nil
	w.pass(5 * time.Second)
	w.wantReady()
}

// With nothing to want, the node removes the chains of a former run and then
// looks no more.
func TestTurnedOff(t *testing.T) {
	w := guarded(t)
	w.start()
	w.tell()
	w.wantReady()
	if len(w.firewall.chains.Chains) != 0 {
		t.Errorf("left behind:\n%s", w.chains())
	}
	looks := w.firewall.looks
	w.run(hint(FirewallLane))
	w.pass(time.Hour)
	if w.firewall.looks != looks {
		t.Errorf("%d more looks for nothing", w.firewall.looks-looks)
	}
}

// A restart finds its rules as they should be and changes nothing.
func TestRestartLeavesRulesAlone(t *testing.T) {
	w := guarded(t)
	plans := len(w.firewall.plans)
	w.start(withRules)
	w.tell()
	w.wantReady()
	if len(w.firewall.plans) != plans {
		t.Errorf("the restart wrote %v", w.firewall.plans[plans:])
	}
}

// Networks of one host stay apart while a start cannot ask the datastore which others there are.
func TestStaleStartKeepsNetworksApart(t *testing.T) {
	w := named(t)
	beside := w.decorate
	w.decorate = func(v *lease.View) {
		v.Beside = &lease.Beside{Others: []netip.Prefix{netip.MustParsePrefix("10.6.0.0/16")}}
	}
	w.tell()
	w.pass(10 * time.Second)
	wantApart := func(when string, want bool) {
		t.Helper()
		if got := strings.Contains(w.firewall.chains.Dump(), "from 10.5.0.0/16 to 10.6.0.0/16 drop"); got != want {
			t.Errorf("%s, apart: %v, want %v:\n%s", when, got, want, w.firewall.chains.Dump())
		}
	}
	wantApart("at first", true)
	w.down = true
	for _, when := range []string{"after a start without the datastore", "after the second"} {
		w.start(masquerading)
		w.tell()
		w.pass(time.Minute)
		wantApart(when, true)
	}
	w.down, w.decorate = false, beside
	w.tell()
	w.pass(10 * time.Second)
	wantApart("once the datastore says that there is no other", false)
}

// The rules of a former network go, however long the firewall takes: none of them is taken for
// those of another daemon.
func TestFormerNetworkLeavesNoRules(t *testing.T) {
	for name, begin := range map[string]func(*world){
		"in a running daemon": func(*world) {},
		"while none ran":      func(w *world) { w.start(withRules) },
	} {
		t.Run(name, func(t *testing.T) {
			w := guarded(t)
			w.rev++
			w.snap.Revision, w.snap.Config = w.rev, lease.Document{
				Data: []byte(strings.Replace(vxlanConfig, "10.5.", "10.6.", 1)), Revision: w.rev}
			w.firewall.err = errors.New("another program holds the lock")
			begin(w)
			w.tell()
			w.pass(time.Minute)
			w.firewall.err = nil
			w.pass(time.Minute)
			w.wantReady()
			if got := w.chains(); strings.Contains(got, "10.5.") || !strings.Contains(got, "10.6.") {
				t.Errorf("chains:\n%s", got)
			}
			if len(w.n.host.networks) != 1 {
				t.Errorf("the node still owns %v", w.n.host.networks)
			}
		})
	}
}

// F4: the route is there at once, and comes back.
func TestBlackholeRoute(t *testing.T) {
	w := guarded(t, func(o *Options) { o.Blackhole = true })
	want := firewall.Blackhole(w.own().Key)[0]
	if got, _ := w.host.Routes.Get(want.RouteKey); got != want {
		t.Fatalf("no %s in\n%s", want, w.host.Dump())
	}
	w.host.Routes.Delete(want.RouteKey)
	w.run(hint(HostLane))
	w.pass(time.Second)
	if got, _ := w.host.Routes.Get(want.RouteKey); got != want {
		t.Errorf("%s did not come back", want)
	}
	w.start(withRules)
	w.tell()
	if w.host.Routes.Has(want.RouteKey) {
		t.Errorf("%s is left although the options do not ask for it", want)
	}
}

// The log names the chains that the node makes, and each lane has its own kinds.
func TestFirewallChangesAreLogged(t *testing.T) {
	w := guarded(t)
	logged := w.logged("firewall-applied")
	const both = "replace iptables ipv4 forward, replace iptables ipv4 postrouting"
	if len(logged) != 1 || !strings.Contains(logged[0], both) {
		t.Errorf("logged %q, want one line with both chains\n%s", logged, w.log())
	}
	if got := w.logged("firewall"); len(got) != 1 || got[0] != "the firewall is as desired: 2 chains" {
		t.Errorf("logged %q, want one line when the chains are in place", got)
	}
}
