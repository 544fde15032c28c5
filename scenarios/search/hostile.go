package search

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/config"
)

// hostileFaults returns what programs do that may write records and wish the nodes ill: an etcd client or a client of a
// flannel server, a daemon like upstream's, and kubelets that annotate their own nodes. One seed in eight draws them,
// and with [Options.Hostile] every seed.
func hostileFaults() []fault {
	return []fault{
		etcdOnly("hostile-record", func(d *drawing) []Step { return []Step{d.forge(d.record())} }),
		etcdOnly("hostile-pair", func(d *drawing) []Step {
			one, other := d.pair()
			return []Step{d.forge(one), d.forge(other)}
		}),
		{name: "hostile-half", fits: func(s shape) bool { return !s.kube && s.family != "v6" },
			draw: func(d *drawing) []Step {
				return []Step{{Line: d.fill("store forge over=N"), Input: text(d.record())}}
			}},
		etcdOnly("hostile-upstream", (*drawing).likeUpstream),
		kubeOnly("hostile-kubelet", func(d *drawing) []Step { return []Step{d.annotate("evil1", d.record())} }),
		kubeOnly("hostile-kubelets", func(d *drawing) []Step {
			one, other := d.pair()
			return []Step{d.annotate("evil1", one), d.annotate("evil2", other)}
		}),
	}
}

func etcdOnly(name string, draw func(*drawing) []Step) fault {
	return fault{name: name, fits: func(s shape) bool { return !s.kube }, draw: draw}
}

func kubeOnly(name string, draw func(*drawing) []Step) fault {
	return fault{name: name, fits: func(s shape) bool { return s.kube }, draw: draw}
}

// withHostile inserts hostile writes after the steps in which the nodes start: the nodes hold leases, and send packets
// to each other. Its stream of random numbers is its own, so the rest of a seed is the same without them. Where subnets
// are scarce a record may take the last one, and where the nodes' addresses change one may be a node's own.
func (d *drawing) withHostile(o Options, joined int) {
	rng := rand.New(rand.NewPCG(d.plan.Seed, 0x4057))
	draws := o.Hostile || rand.New(rand.NewPCG(d.plan.Seed, 0x4058)).IntN(8) == 0
	if !draws || d.top.scarce || d.top.nodes < 2 {
		return
	}
	e := &drawing{rng: rng, top: d.top, plan: Plan{Seed: d.plan.Seed}}
	e.plan.Steps = append(e.plan.Steps, Step{Line: "settle within=30s may-fail"})
	for range min(3, d.top.nodes) {
		e.plan.Steps = append(e.plan.Steps, Step{Line: e.fill("stream start N.pod P.pod") + " every=500ms may-fail"})
	}
	var fit []fault
	for _, f := range hostileFaults() {
		if f.fits(d.top) {
			fit = append(fit, f)
		}
	}
	for range 1 + rng.IntN(4) {
		f := pick(rng, fit...)
		for i, s := range f.draw(e) {
			after := int64(s.After)
			if i == 0 {
				after, s.Fault = e.pause(), f.name
			}
			s.Line += " may-fail"
			s.Hostile = true
			e.step(after, s)
		}
		e.provoke()
	}
	place := joined + rng.IntN(len(d.plan.Steps)-joined+1)
	d.plan.Steps = slices.Insert(d.plan.Steps, place, e.plan.Steps...)
}

// hostile reports whether a plan has hostile writes.
func (p Plan) hostile() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Hostile })
}

// provoke draws steps that make nodes read all records again, or choose another backend for a peer.
func (d *drawing) provoke() {
	steps := pick(d.rng, nil, nil,
		[]Step{at(0, "restart N")},
		[]Step{at(0, "fault N file state gone"), at(0, "restart N kill")},
		[]Step{at(0, "fault N block udp port="+ports[d.top.backend]), at(20*time.Second, "restart N")},
	)
	if ports[d.top.backend] == "" && len(steps) == 2 {
		steps = steps[1:]
	}
	for i, s := range d.fillAll(steps) {
		s.Line += " may-fail"
		after := int64(s.After)
		if i == 0 {
			after = d.pause()
		}
		d.step(after, s)
	}
}

// record is a lease as its writer composes it, member by member.
type record map[string]any

// text returns the value of a record.
func text(r record) string {
	data, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("a drawn record has no JSON form: %v", err))
	}
	// Placeholders contain < and >, which encoding/json escapes.
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(data))
}

// forge writes a record under a key that no node has.
func (d *drawing) forge(r record) Step {
	return Step{Line: "store forge " + d.foreignKey() + pick(d.rng, "", "", " ttl=24h"), Input: text(r)}
}

// foreignKey draws a key: mostly one of the network, and sometimes one that no node can serve.
func (d *drawing) foreignKey() string {
	number := 200 + d.rng.IntN(40)
	v4, v6 := fmt.Sprintf("10.5.%d.0-24", number), fmt.Sprintf("fd00:10:5:%x::-64", number)
	if d.rng.IntN(8) == 0 {
		return pick(d.rng, "172.31.5.0-24", "10.5.200.0-30", "10.5.200.64-26", "192.168.64.0-24", "224.0.0.0-24",
			"127.0.0.0-24", "10.5.200.0-33")
	}
	switch d.top.family {
	case "v6":
		return pick(d.rng, v4+"&"+v6, v6)
	case "dual":
		return pick(d.rng, v4+"&"+v6, v4+"&"+v6, v4)
	}
	return v4
}

// likeUpstream is a daemon that knows no ways, and writes its record again without a condition.
func (d *drawing) likeUpstream() []Step {
	r := d.record()
	delete(r, "BackendWays")
	delete(r, "Creator")
	first := d.forge(r)
	again := first
	again.After = time.Duration(d.pause())
	return []Step{first, again}
}

// annotate registers a node of a kubelet, with a record as its annotations.
func (d *drawing) annotate(name string, r record) Step {
	number := 200 + d.rng.IntN(40)
	cidrs := fmt.Sprintf("10.5.%d.0/24", number)
	switch d.top.family {
	case "v6":
		cidrs = fmt.Sprintf("fd00:10:5:%x::/64", number)
	case "dual":
		cidrs += fmt.Sprintf(",fd00:10:5:%x::/64", number)
	}
	values := map[string]string{"kube-subnet-manager": pick(d.rng, "true", "true", "true", "yes")}
	for member, suffix := range map[string]string{
		"PublicIP": "public-ip", "PublicIPv6": "public-ipv6", "BackendType": "backend-type", "BackendData": "backend-data",
		"BackendV6Data": "backend-v6-data", "BackendWays": "backend-ways",
	} {
		value := r[member]
		if value == nil {
			continue
		}
		plain, isText := value.(string)
		if !isText {
			data, _ := json.Marshal(value) // it came from random choices of this file
			plain = string(data)
		}
		values[suffix] = plain
	}
	data, err := json.Marshal(values)
	if err != nil {
		panic(fmt.Sprintf("drawn annotations have no JSON form: %v", err))
	}
	input := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\\u003c`, "<", `\\u003e`, ">").Replace(string(data))
	return Step{Line: "store forge node=" + name + " cidrs=" + cidrs, Input: input}
}

// pair draws two records of which one offers a backend that the other one names as a previous backend.
func (d *drawing) pair() (one, other record) {
	former := d.identity()
	one, other = d.plainRecord(former.Type), d.plainRecord(d.top.backend)
	one["BackendWays"] = map[string]any{"Present": former.text}
	other["BackendWays"] = map[string]any{"Former": []any{map[string]any{"Backend": former.text, "BackendData": d.data()}}}
	other["PublicIP"] = "192.168.64.98"
	return one, other
}

// plainRecord is a well-formed record of a foreign host, with a backend.
func (d *drawing) plainRecord(backendType string) record {
	r := record{"PublicIP": "192.168.64.99", "BackendType": backendType}
	if d.top.family != "v4" {
		r["PublicIPv6"] = "fd00:64::99"
	}
	switch backendType {
	case "vxlan":
		r["BackendData"] = map[string]any{"VNI": 1, "VtepMAC": "02:00:00:00:00:a9"}
	case "wireguard":
		r["BackendData"] = map[string]any{"PublicKey": foreignKeys[0], "Port": 51820}
	case "udp":
		delete(r, "BackendType")
	}
	if d.top.family != "v4" && r["BackendData"] != nil {
		r["BackendV6Data"] = r["BackendData"]
	}
	return r
}

// record draws a record, of which each member is well-formed or not.
func (d *drawing) record() record {
	r := d.plainRecord(pick(d.rng, append(types(), d.top.backend, d.top.backend, d.top.backend)...))
	for range 1 + d.rng.IntN(3) {
		switch d.rng.IntN(7) {
		case 0:
			r["PublicIP"] = pick[any](d.rng, d.of("ip"), d.of("ip"), d.of("ip"), d.of("pod"), "224.0.0.7", "127.0.0.1",
				"0.0.0.0", "255.255.255.255", "10.5.77.7", "192.168.64.254", "192.168.64.253", "somewhere", 7, nil)
		case 1:
			r["PublicIPv6"] = pick[any](d.rng, d.of("ip6"), "ff02::1", "::1", "fe80::1", "::ffff:192.168.64.1", "::", 7, nil)
		case 2:
			r["BackendType"] = pick[any](d.rng, "", "quantum", "VXLAN", "../../etc", strings.Repeat("x", 300), 7, nil)
		case 3:
			r[pick(d.rng, "BackendData", "BackendV6Data")] = d.data()
		case 4, 5:
			r["BackendWays"] = d.ways()
		default:
			r["Creator"] = pick[any](d.rng, "n1", "n2", strings.Repeat("evil", 100), "\x1b[2J", 7)
		}
	}
	return r
}

// of is a placeholder for what the record of a node holds.
func (d *drawing) of(what string) string { return "<" + d.node() + "." + what + ">" }

// foreignKeys are public keys of WireGuard that no node has.
var foreignKeys = []string{
	"AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=", "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj8=",
}

// data draws the data of a backend: of a foreign host, of a node, or of nothing that has a meaning.
func (d *drawing) data() any {
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	return pick[any](d.rng,
		map[string]any{"VNI": 1, "VtepMAC": "02:00:00:00:00:a8"},
		map[string]any{"VNI": d.rng.IntN(1 << 25), "VtepMAC": "02:00:00:00:00:a7"},
		map[string]any{"VNI": 1, "VtepMAC": pick(d.rng, d.of("mac"), "01:00:5e:00:00:01", "00:00:00:00:00:00", "short")},
		map[string]any{"PublicKey": pick(d.rng, foreignKeys...), "Port": 1 + d.rng.IntN(65535)},
		map[string]any{"PublicKey": pick(d.rng, d.of("key"), d.of("key"), "AAAA", ""), "Port": 51820},
		map[string]any{"PublicKey": 7, "VNI": "x", "VtepMAC": []int{}},
		json.RawMessage(deep), strings.Repeat("long ", 2000), 7, "", []any{}, nil,
	)
}

// identity draws the identity of a backend with an option on which nodes agree, such as a port that other programs use.
func (d *drawing) identity() identity {
	port := pick(d.rng, 53, 68, 4500, 5353, 8285, 8472, 51820, 51821, 1, 65535, 20000+d.rng.IntN(1000))
	object := pick(d.rng, `{"Type":"vxlan"}`, fmt.Sprintf(`{"Type":"vxlan","VNI":%d}`, 2+d.rng.IntN(1000)),
		fmt.Sprintf(`{"Type":"vxlan","Port":%d}`, port), `{"Type":"udp"}`, fmt.Sprintf(`{"Type":"udp","Port":%d}`, port),
		`{"Type":"host-gw"}`, `{"Type":"ipip"}`, `{"Type":"wireguard"}`, `{"Type":"wireguard","Mode":"auto"}`,
		`{"Type":"extension"}`, `{"Type":"ipsec"}`, `{"Type":"alloc"}`, `{"Type":"gce"}`)
	var head struct{ Type string }
	_ = json.Unmarshal([]byte(object), &head) // it is one of those above
	spec, _ := all.Find(head.Type)
	same, err := spec.Identity(config.Backend{Type: head.Type, Options: json.RawMessage(object)}, backend.Both)
	if err == nil {
		object = same
	}
	return identity{head.Type, json.RawMessage(object)}
}

// identity names a backend.
type identity struct {
	Type string
	text json.RawMessage
}

// ways draws the member that names a record's backends.
func (d *drawing) ways() any {
	if d.rng.IntN(6) == 0 {
		return pick[any](d.rng, 7, []int{1}, "x", map[string]any{"Former": 7}, map[string]any{"Former": []any{nil}},
			map[string]any{"Present": 7, "Former": []any{map[string]any{"Backend": json.RawMessage(`{"Type":7}`)}}})
	}
	var former []any
	for range d.rng.IntN(6) {
		f := map[string]any{"Backend": d.identity().text, "BackendData": d.data()}
		if d.rng.IntN(4) == 0 {
			f["Unused"] = true
		}
		former = append(former, f)
	}
	w := map[string]any{"Former": former}
	if d.rng.IntN(2) == 0 {
		w["Present"] = d.identity().text
	}
	return w
}

// types returns the types of all backends.
func types() []string {
	var names []string
	for _, s := range all.Specs() {
		names = append(names, s.Type)
	}
	return names
}
