package transition

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/backends"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/node/event"
	"github.com/flanneld/flannel/core/uplink"
)

// The identities of the backends in these tests.
const (
	vxlan     = `{"Type":"vxlan"}`
	hostGW    = `{"Type":"host-gw"}`
	wireguard = `{"Type":"wireguard"}`
	udp       = `{"Type":"udp"}`
)

// bench holds a machine and the facts that it is given.
type bench struct {
	t     *testing.T
	m     *Machine
	log   *event.Log
	facts Facts
	env   backend.Env
	self  backend.Self
	peers []*lease.Lease
}

func newBench(t *testing.T) *bench {
	log := event.NewLog()
	own := netip.MustParseAddr("192.168.64.1")
	b := &bench{t: t, m: New(log, time.Hour), log: log}
	b.env.Uplink = uplink.Uplink{Link: "eth0", MTU: 1500, IP: own, PublicIP: own}
	b.env.Facts.Keys = map[dataplane.SecretName]driver.Key{dataplane.WireGuardKey: {Public: dataplane.PublicKey{1}}}
	b.self.Key = lease.Key{V4: netip.MustParsePrefix("10.5.1.0/24")}
	b.facts = Facts{Now: time.Unix(1000, 0), Records: Records{Snapshot: &lease.Snapshot{}, Source: b}}
	return b
}

func (b *bench) Peers() []*lease.Lease    { return b.peers }
func (b *bench) Env() backend.Env         { return b.env }
func (b *bench) Self() backend.Self       { return b.self }
func (b *bench) Undisputed() backend.Self { return b.self }

func (b *bench) Last() (lease.Attrs, bool) {
	if b.facts.Own.Held == nil {
		return lease.Attrs{}, false
	}
	return *b.facts.Own.Held, true
}

// adopt puts a network config in force; members are further ones, each with a comma after it.
func (b *bench) adopt(members, object string) {
	b.t.Helper()
	network, err := config.Parse([]byte(`{"Network":"10.5.0.0/16",` + members + `"Backend":` + object + `}`))
	if err != nil {
		b.t.Fatal(err)
	}
	set, err := backends.New(network, b.m.Previous(b.facts.Own, network)...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.env.Config = network
	b.m.Adopt(b.facts, network, set)
}

// publish makes the attributes that the machine publishes those of the node's record.
func (b *bench) publish() {
	b.t.Helper()
	stored, _ := b.Last()
	full, err := b.m.Set().Attrs(b.env, stored, dataplane.NewState(), rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		b.t.Fatal(err)
	}
	a := b.m.Publish(b.facts.Own, b, full)
	b.facts.Own.Held = &a
}

// pass lets time pass, takes a step, and publishes what follows.
func (b *bench) pass(d time.Duration) Changed {
	b.t.Helper()
	b.facts.Now = b.facts.Now.Add(d)
	changed := b.m.Step(b.facts)
	b.publish()
	return changed
}

// wantUse checks the backends in use, and those that the node's record offers.
func (b *bench) wantUse(when string, inUse, offered []string) {
	b.t.Helper()
	if got := append([]string{b.m.Set().Present()}, b.m.Set().Previous()...); !slices.Equal(got, inUse) {
		b.t.Errorf("%s: %s are in use, want %s", when, got, inUse)
	}
	for _, id := range []string{vxlan, hostGW, wireguard, udp} {
		if offers := b.facts.Own.offers(id); offers != slices.Contains(offered, id) {
			b.t.Errorf("%s: the record offers %s: %t", when, id, offers)
		}
	}
}

// ran makes a machine that uses a backend, and offers it.
func ran(t *testing.T, object string) *bench {
	b := newBench(t)
	b.adopt("", object)
	b.m.Stands()
	b.publish()
	b.pass(time.Second)
	b.wantUse("before", []string{object}, []string{object})
	b.log.Take()
	return b
}

func TestLifeOfAChange(t *testing.T) {
	b := ran(t, vxlan)
	b.adopt("", hostGW)
	b.pass(time.Second)
	b.wantUse("the host lacks the routes", []string{hostGW, vxlan}, []string{vxlan})
	b.m.Stands()
	b.pass(time.Second)
	b.wantUse("the host has all", []string{hostGW, vxlan}, []string{hostGW, vxlan})
	b.pass(time.Second)
	if at, want := *b.m.Change(b.facts.Now, b.facts.Records).Former[0].Until, b.facts.Now.Add(time.Hour); !at.Equal(want) {
		t.Errorf("the change ends at %s, want %s", at, want)
	}
	b.pass(time.Hour - time.Second)
	b.wantUse("before the limit", []string{hostGW, vxlan}, []string{hostGW, vxlan})
	if changed := b.pass(time.Second); changed != Roles {
		t.Errorf("at the limit: changed %d, want %d", changed, Roles)
	}
	b.wantUse("at the limit", []string{hostGW, vxlan}, []string{hostGW})
	b.pass(time.Second)
	b.pass(Linger - time.Second)
	b.wantUse("peers may still send by it", []string{hostGW, vxlan}, []string{hostGW})
	if changed := b.pass(time.Second); changed != Backends {
		t.Errorf("at the end: changed %d, want %d", changed, Backends)
	}
	b.wantUse("after the end", []string{hostGW}, []string{hostGW})
	var kinds []string
	for _, e := range b.log.Take() {
		kinds = append(kinds, e.Kind)
	}
	if diff := cmp.Diff([]string{"backend-change", "backend-ends", "backend-changed"}, kinds); diff != "" {
		t.Error(diff)
	}
}

func TestOperatorsWord(t *testing.T) {
	for name, c := range map[string]struct {
		members    string
		after      time.Duration
		hasSecond  bool
		recordHas2 bool
	}{
		"memory keeps it":         {"", time.Minute, true, true},
		"an empty list ends it":   {`"Formerly":[],`, time.Minute, true, false},
		"a list names it forever": {`"Formerly":[{"Type":"vxlan"}],`, 100 * time.Hour, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := ran(t, vxlan)
			b.adopt("", hostGW)
			b.m.Stands()
			b.pass(time.Second)
			b.pass(time.Second)
			b.adopt(c.members, hostGW)
			b.m.Stands()
			b.pass(time.Second)
			b.pass(c.after)
			if got := b.m.Set().Has(vxlan); got != c.hasSecond {
				t.Errorf("vxlan is in use: %t", got)
			}
			if got := b.facts.Own.offers(vxlan); got != c.recordHas2 {
				t.Errorf("the record offers vxlan: %t", got)
			}
		})
	}
}

// Records of peers decide nothing about the backends in use, whatever they name.
func TestRecordsOpenNothing(t *testing.T) {
	b := ran(t, wireguard)
	former := []lease.FormerWay{{Backend: json.RawMessage(vxlan)}, {Backend: json.RawMessage(udp)}}
	for i, w := range []lease.Ways{
		{Present: json.RawMessage(vxlan)}, {Former: former}, {Present: json.RawMessage(udp), Next: &former[0]},
	} {
		key := lease.Key{V4: netip.MustParsePrefix(fmt.Sprintf("10.5.%d.0/24", 7+i))}
		b.peers = append(b.peers, &lease.Lease{Key: key, Attrs: lease.Attrs{
			PublicIP: netip.MustParseAddr("192.168.64.9"), BackendType: "vxlan", Ways: w,
		}})
	}
	b.facts.Records.Snapshot = &lease.Snapshot{Revision: 2, Leases: b.peers}
	for range 3 {
		if changed := b.pass(time.Minute); changed != Nothing {
			t.Errorf("changed %d", changed)
		}
	}
	b.adopt(`"EnableIPv6":false,`, wireguard)
	b.wantUse("after the records", []string{wireguard}, []string{wireguard})
}

func TestMemoryOfTheLastRun(t *testing.T) {
	first := ran(t, vxlan)
	first.adopt("", hostGW)
	first.m.Stands()
	first.pass(time.Second)
	first.pass(time.Second)

	b := newBench(t)
	b.m.Resume(first.m.Memory())
	b.facts.Now = first.facts.Now.Add(59 * time.Minute)
	b.facts.Own = first.facts.Own
	b.adopt("", hostGW)
	b.m.Stands()
	b.pass(time.Second)
	b.wantUse("after a restart", []string{hostGW, vxlan}, []string{hostGW, vxlan})
	b.pass(time.Minute)
	b.wantUse("an hour after the begin of the first run", []string{hostGW, vxlan}, []string{hostGW})
}

func TestGiveUp(t *testing.T) {
	device := dataplane.Link{Name: "flannel0", Params: dataplane.TUN{}}
	op := dataplane.Op{Verb: dataplane.Create, Object: device}
	for name, c := range map[string]struct {
		err    error
		differ []string
		want   Changed
	}{
		"the host cannot have the device": {driver.ErrUnsupported, []string{"flannel0"}, Backends},
		"another failure":                 {driver.ErrExists, []string{"flannel0"}, Nothing},
		"more differs":                    {driver.ErrUnsupported, []string{"flannel0", "flannel.1"}, Nothing},
	} {
		t.Run(name, func(t *testing.T) {
			b := ran(t, udp)
			b.adopt("", vxlan)
			b.m.Lacks(op, "flannel0", c.err)
			if got := b.m.GiveUp(b.facts, c.differ); got != c.want {
				t.Errorf("changed %d, want %d", got, c.want)
			}
			if got := b.m.Set().Has(udp); got != (c.want == Nothing) {
				t.Errorf("udp is in use: %t", got)
			}
		})
	}
}

// A node that has offered an encrypting backend sends nothing in the clear to peers that offer it, even if the kernel
// refuses the device later. Before that it keeps the previous backend.
func TestRefusedDeviceOfAnEncryptingBackend(t *testing.T) {
	device := dataplane.Link{Name: "flannel-wg", Params: dataplane.WireGuard{}}
	refused := dataplane.Op{Verb: dataplane.Create, Object: device}
	for name, began := range map[string]bool{"before it is offered": false, "later": true} {
		t.Run(name, func(t *testing.T) {
			b := ran(t, vxlan)
			b.peers = []*lease.Lease{{Key: lease.Key{V4: netip.MustParsePrefix("10.5.9.0/24")}, Attrs: lease.Attrs{
				PublicIP: netip.MustParseAddr("192.168.64.9"), BackendType: "wireguard",
				BackendData: fmt.Appendf(nil, `{"PublicKey":%q,"Port":51820}`, dataplane.PublicKey{9}),
				Ways: lease.Ways{Former: []lease.FormerWay{{
					Backend: json.RawMessage(vxlan), Data: json.RawMessage(`{"VNI":1,"VtepMAC":"02:00:00:00:00:09"}`),
				}}},
			}}}
			b.adopt("", wireguard)
			if began {
				b.m.Stands()
				for range 4 {
					b.pass(PrepareFor) // the record announces it, then offers it
				}
				b.wantUse("offered", []string{wireguard, vxlan}, []string{wireguard, vxlan})
			}
			b.m.Lacks(refused, "flannel-wg", driver.ErrUnsupported)
			b.pass(time.Second)
			uses := b.m.Set().Uses(b.env, b.self, b.peers)
			if len(uses) != 1 || (len(uses[0].Sends) == 0) != began {
				t.Errorf("the node sends %+v", uses)
			}
		})
	}
}

// An unencrypted device beside an encrypting one is open only behind a filter.
func TestUnguardedDevices(t *testing.T) {
	b := ran(t, vxlan)
	b.facts.Host.Have = dataplane.NewState()
	b.adopt("", wireguard)
	b.m.Stands()
	for range 4 {
		b.pass(PrepareFor) // the record announces it, then offers it
	}
	if !b.m.role[vxlan].Closed {
		t.Error("a device may be made though no filter guards it")
	}
	b.facts.Host.FilterNotes = []string{"nft is missing"}
	b.pass(GuardWithin)
	b.pass(GuardWithin)
	b.wantUse("a minute later", []string{wireguard}, []string{wireguard})
	var texts []string
	for _, e := range b.log.Take() {
		texts = append(texts, e.Kind+" "+e.Text)
	}
	all := strings.Join(texts, "\n")
	if !strings.Contains(all, "this host cannot keep other hosts from this unencrypted backend") {
		t.Errorf("the log does not say why:\n%s", all)
	}
}
