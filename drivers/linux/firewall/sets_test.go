package firewall

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
)

// manyGuards returns the chain that admits random addresses, some of which are neighbours.
func manyGuards(flavour dataplane.Flavour, f cidr.Family, n int) dataplane.Chain {
	chance := rand.New(rand.NewPCG(1, uint64(n)))
	base := cidr.Number([...]netip.Addr{ip("172.16.0.0"), ip("fd00:a::")}[f])
	var from []netip.Addr
	for range n {
		from = append(from, f.Addr(base.Add(cidr.From64(chance.Uint64N(uint64(n)*4)))))
	}
	return guardChain(flavour, f, from...)
}

// mostGuards is how many guards a test gives the kernel in one message: an ordinary user may not make the buffer
// of a socket large enough for 5000.
func mostGuards(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 1<<20) != nil {
		return 200
	}
	return 5000
}

// TestManyGuards: a guard with thousands of addresses is in place after one plan, reads back as it was written, and is
// one rule with a set in nftables. In iptables only the packets of its port enter it.
func TestManyGuards(t *testing.T) {
	eachMaking(t, func(t *testing.T, w *world, m making, f cidr.Family) {
		n := mostGuards(t)
		c := manyGuards(m.flavour, f, n)
		w.apply(t, dataplane.Op{Verb: dataplane.Replace, Object: c})
		w.expect(t, c)
		list, err := c.Rules.List()
		if err != nil || len(list) < n*2/5 || len(list) > n*9/10 {
			t.Fatalf("%d rules, error %v", len(list), err)
		}
		if m.flavour == dataplane.NFTables {
			table := w.sh(t, fill("nft -s list table {ip} {table}", f))
			if n := strings.Count(table, "udp dport 8472"); n != 2 {
				t.Errorf("%d rules about the port, want one that returns and one that drops", n)
			}
		} else if in := w.sh(t, fill("{iptables} -S INPUT", f)); !strings.Contains(in, "--dport 8472") {
			t.Errorf("every packet enters the chain:\n%s", in)
		}
		w.apply(t, dataplane.Op{Verb: dataplane.Delete, Object: c})
		w.expect(t)
	})
}

func TestPrefixesOfBounds(t *testing.T) {
	begin := func(a string) bound { return bound{ip(a), false} }
	end := func(a string) bound { return bound{ip(a), true} }
	for _, c := range []struct {
		bounds []bound
		want   string
	}{
		{nil, ""},
		{[]bound{begin("10.0.0.9"), begin("10.0.0.4")}, "10.0.0.4/32 10.0.0.9/32"},
		{[]bound{end("0.0.0.0"), end("10.0.0.6"), begin("10.0.0.4")}, "10.0.0.4/31"},
		{[]bound{begin("10.0.0.1"), end("10.0.0.7")}, "10.0.0.1/32 10.0.0.2/31 10.0.0.4/31 10.0.0.6/32"},
		{[]bound{begin("10.0.0.1"), end("10.0.0.2"), begin("10.0.0.2"), end("10.0.0.3")}, "10.0.0.1/32 10.0.0.2/32"},
		{[]bound{begin("fd00::"), end("fd00::2")}, "fd00::/127"},
		{[]bound{begin("10.0.0.1"), begin("10.0.0.2"), end("10.0.0.3")}, "odd"},
		{[]bound{begin("10.0.0.1"), begin("fd00::2")}, "odd"},
		{[]bound{{}}, "odd"},
	} {
		all, ok := prefixes(c.bounds)
		var texts []string
		for _, p := range all {
			texts = append(texts, p.String())
		}
		got := strings.Join(texts, " ")
		if !ok {
			got = "odd"
		}
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.bounds, got, c.want)
		}
	}
}

// FuzzBounds: no elements of a set do harm, and prefixes hold what they say.
func FuzzBounds(f *testing.F) {
	f.Add([]byte{0, 10, 0, 0, 4, 1, 10, 0, 0, 6})
	f.Add([]byte{1, 0, 0, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		var all []bound
		for part := range slices.Chunk(b, 5) {
			a, _ := netip.AddrFromSlice(part[1:])
			all = append(all, bound{a, part[0]&1 != 0})
		}
		found, ok := prefixes(all)
		for _, p := range found {
			if ok && p.Masked() != p {
				t.Errorf("%v holds %v", all, p)
			}
		}
	})
}
