package lang

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/core/nodelease"
	"github.com/flanneld/flannel/scenarios/check/oracle"
)

// ForeignNodes registers Kubernetes nodes beside those of the topology.
type ForeignNodes interface {
	// PutNode registers a node with these pod CIDRs, separated by commas.
	PutNode(name, podCIDRs string) error
	AnnotateNode(name string, change func(*nodelease.Node)) error
}

// storeForge performs
//
//	store forge 10.5.200.0-24 [ttl=24h]             a program that may write to the datastore writes the input there
//	store forge over=n2 [ttl=24h]                   ... under the second half of n2's IPv4 subnet
//	store forge node=evil cidrs=10.5.200.0/24       a kubelet annotates its own node; the input is an object of
//	                                                annotations, without their prefix
//
// Placeholders in the input stand for what the records of nodes hold: <n2.ip>, <n2.ip6>, <n2.mac>, <n2.key>, and
// <n2.pod>, the first address of n2's subnet.
func storeForge(s *Session, st Store, a *args, input string) error {
	var node, cidrs, over string
	var ttl time.Duration
	a.duration("ttl", &ttl)
	ofNode := a.text("node", &node)
	a.text("cidrs", &cidrs)
	name := ""
	if !a.text("over", &over) && !ofNode {
		name = a.word("key")
	}
	if err := a.done(); err != nil {
		return err
	}
	text, err := s.forged(input)
	if err != nil {
		return err
	}
	switch {
	case ofNode:
		return s.annotateForeign(node, cidrs, text)
	case s.top.Kube:
		return errors.New("store forge: leases are on nodes: name one by node=")
	case over != "":
		name, err = s.halfOf(over)
		if err != nil {
			return err
		}
	}
	s.noteForgery(name, text)
	if err := st.Put("subnets/"+name, text); err != nil || ttl == 0 {
		return err
	}
	editor, err := able[RecordEditor](s, st)
	if err != nil {
		return err
	}
	return editor.SetTTL("subnets/"+name, ttl)
}

// forged replaces the placeholders of an input. It fails if no record holds the value of one of them.
func (s *Session) forged(input string) (string, error) {
	if !strings.Contains(input, "<n") {
		return input, nil
	}
	records, err := s.world.Store().Records()
	if err != nil {
		return "", err
	}
	var pairs []string
	for i, name := range s.top.NodeNames() {
		for _, r := range records {
			l, ok := r.lease()
			if !ok || s.owner(l) != name {
				continue
			}
			if key, _, ok := oracle.WireGuardData(l); ok {
				pairs = append(pairs, "<"+name+".key>", key.String())
			}
			for _, f := range cidr.Families {
				if mac := oracle.VTEPMAC(l, f); mac != "" {
					pairs = append(pairs, "<"+name+".mac>", mac)
				}
				if p := l.Key.Of(f); p.IsValid() {
					pairs = append(pairs, "<"+name+".pod>", p.Addr().Next().String())
				}
			}
		}
		pairs = append(pairs, "<"+name+".ip>", s.address(i, cidr.V4).String())
		pairs = append(pairs, "<"+name+".ip6>", s.address(i, cidr.V6).String())
	}
	text := strings.NewReplacer(pairs...).Replace(input)
	if _, rest, left := strings.Cut(text, "<n"); left {
		return "", fmt.Errorf("no record holds <n%.8s", rest)
	}
	return text, nil
}

// noteForgery remembers a record, so that no check demands anything for it. One that cannot be decoded demands nothing.
func (s *Session) noteForgery(name, text string) {
	key, err := lease.ParseKey(name)
	attrs, err2 := lease.DecodeAttrs([]byte(text))
	if err == nil {
		s.forgeries = append(s.forgeries, lease.Lease{Key: key})
	}
	if errors.Join(err, err2) == nil {
		s.forgeries = append(s.forgeries, lease.Lease{Key: key, Attrs: attrs})
	}
}

// isForged reports whether another program has written a record.
func (s *Session) isForged(l lease.Lease) bool {
	return slices.ContainsFunc(s.Forgeries(), func(f lease.Lease) bool { return f.Key == l.Key })
}

// Forgeries returns the records that other programs have written, those included that are gone. A node without a
// record takes one with its address for its own (interop 3.2: the record of a public IP), which then is none of these.
func (s *Session) Forgeries() []lease.Lease {
	var all []lease.Lease
	for _, f := range s.forgeries {
		if !s.adopted(f.Key) {
			all = append(all, f)
		}
	}
	return all
}

// adopted reports whether a node announces the subnet of a forged record, and the record has the node's address. A node
// that has lost its subnet to another host announces it for a moment longer.
func (s *Session) adopted(key lease.Key) bool {
	for _, name := range s.top.NodeNames() {
		n, err := s.world.Node(name)
		if err != nil || !announces(n, key) {
			continue
		}
		records, err := s.world.Store().Records()
		if err != nil {
			return false
		}
		for _, r := range records {
			if l, ok := r.lease(); ok && l.Key == key && s.owner(l) == name {
				return true
			}
		}
	}
	return false
}

// halfOf returns the key of the second half of a node's IPv4 subnet.
func (s *Session) halfOf(node string) (string, error) {
	r, err := s.recordOf(node)
	if err != nil {
		return "", err
	}
	l, _ := r.lease()
	if !l.Key.V4.IsValid() {
		return "", fmt.Errorf("%s has no IPv4 subnet", node)
	}
	half := netip.PrefixFrom(cidr.Last(l.Key.V4), l.Key.V4.Bits()+1).Masked()
	return lease.Key{V4: half}.String(), nil
}

// annotateForeign registers a node and sets its annotations.
func (s *Session) annotateForeign(name, cidrs, text string) error {
	if !s.top.Kube {
		return errNotKube
	}
	var values map[string]string
	if err := json.Unmarshal([]byte(text), &values); err != nil {
		return fmt.Errorf("annotations of %s: %w", name, err)
	}
	nodes, err := able[ForeignNodes](s, s.World())
	if err != nil {
		return err
	}
	if err := nodes.PutNode(name, cidrs); err != nil {
		return err
	}
	names, err := nodelease.ParsePrefix(nodelease.DefaultPrefix)
	if err != nil {
		return err
	}
	s.noteForgery(foreignNodeKey(cidrs), foreignNodeRecord(values))
	return nodes.AnnotateNode(name, func(n *nodelease.Node) {
		for suffix, value := range values {
			if which, known := names.Find([]byte(nodelease.DefaultPrefix + "/" + suffix)); known {
				n.Values[which] = value
			}
		}
	})
}

// foreignNodeKey returns the key of a node's pod CIDRs.
func foreignNodeKey(cidrs string) string {
	var key lease.Key
	for text := range strings.SplitSeq(cidrs, ",") {
		if p, err := netip.ParsePrefix(text); err == nil {
			*cidr.Pick(cidr.FamilyOf(p.Addr()), &key.V4, &key.V6) = p
		}
	}
	return key.String()
}

// foreignNodeRecord returns the device of annotations in the form of a record.
func foreignNodeRecord(values map[string]string) string {
	v4, v6 := values["backend-data"], values["backend-v6-data"]
	if !json.Valid([]byte(v4)) {
		v4 = "null"
	}
	if !json.Valid([]byte(v6)) {
		v6 = "null"
	}
	ip, err := netip.ParseAddr(values["public-ip"])
	if err != nil || !ip.Is4() {
		ip = netip.IPv4Unspecified()
	}
	return fmt.Sprintf(`{"PublicIP":%q,"BackendData":%s,"BackendV6Data":%s}`, ip, v4, v6)
}
