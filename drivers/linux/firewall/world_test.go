package firewall

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	rules "github.com/flanneld/flannel/core/firewall"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// world is a network namespace with a packet filter and a $PATH of its own.
type world struct {
	*linuxtest.Host
	*programs
	f  *Firewall
	ns namespace.Namespace
}

func newWorld(t testing.TB, v variant) *world {
	t.Helper()
	p := newPrograms(t, v)
	h := linuxtest.HostOf(t)
	f, err := Open(t.Context(), h.NS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Errorf("close packet filter: %v", err)
		}
	})
	return &world{Host: h, programs: p, f: f, ns: h.Keep(t)}
}

// programs is a directory that is the whole $PATH, with programs that note each
// start.
type programs struct {
	dir, log string
	real     map[string]string // paths
	told     int               // bytes of the log that started has returned
}

// newPrograms makes iptables the given variant. It skips the test if this
// machine lacks a program.
func newPrograms(t testing.TB, v variant) *programs {
	t.Helper()
	p := &programs{dir: t.TempDir(), real: map[string]string{}}
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin") // a directory that is not in every $PATH
	p.log = filepath.Join(p.dir, "started")
	for _, name := range []string{"iptables", "ip6tables"} {
		for _, what := range []string{"", "-save", "-restore"} {
			for _, of := range []variant{variantNFT, variantLegacy} {
				p.add(t, name+"-"+string(of)+what, name+"-"+string(of)+what)
			}
			p.add(t, name+what, name+"-"+string(v)+what)
		}
	}
	p.add(t, "nft", "nft")
	t.Setenv("PATH", p.dir)
	t.Setenv("XTABLES_LOCKFILE", filepath.Join(p.dir, "lock"))
	return p
}

func (p *programs) add(t testing.TB, name, of string) {
	t.Helper()
	path, err := exec.LookPath(of)
	if err != nil {
		t.Skipf("SKIPPED: no %s here (make deps installs it as root)", of)
	}
	p.real[name] = path
	wrapper := fmt.Sprintf("#!/bin/sh\necho \"%s $*\" >>%s\nexec %s \"$@\"\n", name, p.log, path)
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(wrapper), 0o755); err != nil {
		t.Fatal(err)
	}
}

// link makes a name a link to the program itself.
func (p *programs) link(t testing.TB, name, path string) {
	t.Helper()
	file := filepath.Join(p.dir, name)
	if err := errors.Join(os.Remove(file), os.Symlink(path, file)); err != nil {
		t.Fatal(err)
	}
}

// started returns the programs started since the last call. A wrapper may have made the
// file and not written its line yet.
func (p *programs) started(t testing.TB) []string {
	t.Helper()
	b, err := os.ReadFile(p.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var commands []string
	for line := range strings.Lines(string(b[p.told:])) {
		command, whole := strings.CutSuffix(line, "\n")
		if whole {
			commands = append(commands, strings.TrimSpace(command))
			p.told += len(line)
		}
	}
	return commands
}

// sh runs a line in the namespace, as another program would, and returns its
// output.
func (w *world) sh(t testing.TB, line string) string {
	t.Helper()
	out, err := w.try(line)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return out
}

func (w *world) try(line string) (string, error) {
	for name, path := range w.real {
		line = replaceWord(line, name, path)
	}
	return run(context.Background(), w.ns, line, "/bin/sh", "-e")
}

// replaceWord replaces a program's name at the beginning of a command.
func replaceWord(line, name, path string) string {
	var out []string
	for _, command := range strings.Split(line, "\n") {
		if rest, ok := strings.CutPrefix(command, name+" "); ok {
			command = path + " " + rest
		}
		out = append(out, command)
	}
	return strings.Join(out, "\n")
}

// apply performs ops, which must succeed.
func (w *world) apply(t testing.TB, ops ...dataplane.Op) {
	t.Helper()
	if err := errors.Join(w.f.Apply(t.Context(), ops)...); err != nil {
		t.Fatal(err)
	}
}

// look returns what the driver reads.
func (w *world) look(t testing.TB) driver.Observation {
	t.Helper()
	seen, err := w.f.Look(t.Context(), dataplane.Extent{})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// inspect returns the existing chains.
func (w *world) inspect(t testing.TB) string {
	t.Helper()
	return w.look(t).State.Dump()
}

// expect compares the existing chains.
func (w *world) expect(t testing.TB, want ...dataplane.Chain) {
	t.Helper()
	s := dataplane.NewState()
	for _, c := range want {
		s.AddChain(c)
	}
	if d := cmp.Diff(s.Dump(), w.inspect(t)); d != "" {
		t.Errorf("chains (-want +have):\n%s", d)
	}
}

// guards returns those of a node that keeps a vxlan and an ipip device for two peers.
func guards() [2][]rules.Guard {
	var by [2][]rules.Guard
	for _, f := range cidr.Families {
		from := []netip.Addr{addresses[f]["overlay"], addresses[f]["remote"]}
		by[f] = []rules.Guard{{Proto: dataplane.ProtoUDP, Port: 8472, From: from}, {Proto: dataplane.ProtoIPIP, From: from}}
	}
	return by
}

// wanted returns the chains that a node wants for a flavour and family.
func wanted(t testing.TB, flavour dataplane.Flavour, f cidr.Family) []dataplane.Chain {
	t.Helper()
	prefix := func(text string, f cidr.Family) netip.Prefix { return netip.MustParsePrefix(fill(text, f)) }
	network := config.Network{
		V4: config.Range{Network: prefix("{net}", cidr.V4)}, V6: config.Range{Network: prefix("{net}", cidr.V6)},
		EnableNFTables: flavour == dataplane.NFTables,
	}
	own := lease.Key{V4: prefix("{own}", cidr.V4), V6: prefix("{own}", cidr.V6)}
	tools := driver.Tools{IPTables: driver.Tool{Usable: true, RandomFully: true},
		NFTables: driver.Tool{Usable: true, RandomFully: true}}
	options := rules.Options{Masquerade: true, Forward: true, Guards: guards()}
	w := rules.Render(options, network, own,
		driver.FirewallFacts{Tools: [2]driver.Tools{tools, tools}})
	var chains []dataplane.Chain
	for _, h := range dataplane.Hooks {
		c, ok := w.Chains.Chains[dataplane.ChainKey{Flavour: flavour, Family: f, Hook: h}]
		if !ok {
			t.Fatalf("the state has no chain of %s at %s", flavour, h)
		}
		chains = append(chains, c)
	}
	return chains
}

// ops returns the same verb for each chain.
func ops(verb dataplane.Verb, chains []dataplane.Chain) []dataplane.Op {
	var all []dataplane.Op
	for _, c := range chains {
		all = append(all, dataplane.Op{Verb: verb, Object: c})
	}
	return all
}

// making is a way in which chains can be made.
type making struct {
	flavour dataplane.Flavour
	variant variant
}

func (m making) String() string { return fmt.Sprintf("%s-%s", m.flavour, m.variant) }

// makings lists all ways. With nftables, the variant of iptables makes no
// difference.
var makings = []making{
	{dataplane.NFTables, variantNFT},
	{dataplane.IPTables, variantNFT},
	{dataplane.IPTables, variantLegacy},
}

// eachMaking runs a test in a fresh world for each way and family.
func eachMaking(t *testing.T, test func(t *testing.T, w *world, m making, f cidr.Family)) {
	for _, m := range makings {
		for _, f := range cidr.Families {
			t.Run(fmt.Sprintf("%s/%s", m, f), func(t *testing.T) { test(t, newWorld(t, m.variant), m, f) })
		}
	}
}
