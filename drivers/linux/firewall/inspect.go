package firewall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// cache holds the last reading and the condition under which it is still valid.
type cache struct {
	generation uint32 // of nft; 0: read again
	nft        nftView
	tables     [2]map[variant]*tables // by family
}

// tables holds the tables of a variant of iptables.
type tables struct {
	print imprint // of iptables-nft
	saved saved
	err   error // iptables-save cannot read them, for instance because nft made them
}

// Look implements [driver.Lane]. It reads all chains of flannel, whatever the
// extent.
func (f *Firewall) Look(ctx context.Context, _ dataplane.Extent) (driver.Observation, error) {
	if err := f.look(ctx); err != nil {
		return driver.Observation{}, fmt.Errorf("look at packet filter: %w", err)
	}
	state := dataplane.NewState()
	if f.tools.nft != nil { // otherwise we could not change them
		for _, c := range f.seen.nft.chains {
			state.AddChain(c)
		}
	}
	for _, family := range cidr.Families {
		for _, h := range dataplane.Hooks {
			k := dataplane.ChainKey{Flavour: dataplane.IPTables, Family: family, Hook: h}
			if here, elsewhere := f.found(k); here.any() || elsewhere.any() {
				state.AddChain(neutralIPTables(k, here, elsewhere, f.inBoth(k)))
			}
		}
	}
	return driver.Observation{State: state, Facts: f.facts()}, nil
}

// look brings the cache up to date. It starts a process only for tables of
// iptables-nft that have changed, and for tables of iptables-legacy, which do
// not say whether they have.
func (f *Firewall) look(ctx context.Context) error {
	f.tools = f.tools.current(ctx, f.ns, time.Now())
	generation, err := f.nft.generation()
	if err != nil {
		return err
	}
	if generation == 0 || generation != f.seen.generation {
		f.seen.generation, f.seen.nft = 0, nftView{}
		if generation != 0 {
			f.seen.nft, err = f.nft.look()
			if err != nil {
				return err
			}
		}
		after, err := f.nft.generation()
		if err != nil {
			return err
		}
		if after == generation { // otherwise the view may mix two generations
			f.seen.generation = generation
		}
	}
	for _, family := range cidr.Families {
		if err := f.lookIPTables(ctx, family); err != nil {
			return err
		}
	}
	return nil
}

func (f *Firewall) lookIPTables(ctx context.Context, family cidr.Family) error {
	now := map[variant]*tables{}
	for _, x := range []*xtables{f.tools.iptables[family], f.tools.other[family]} {
		if x == nil {
			continue
		}
		var err error
		now[x.variant], err = f.tablesOf(ctx, x)
		if err != nil {
			return err
		}
	}
	f.seen.tables[family] = now
	return nil
}

// tablesOf returns the tables of a variant of iptables. It reads them again unless they
// are known to be unchanged.
func (f *Firewall) tablesOf(ctx context.Context, x *xtables) (*tables, error) {
	var sum imprint
	switch before := f.seen.tables[x.family][x.variant]; x.variant {
	case variantNFT:
		sum = f.seen.nft.iptables[x.family]
		if sum == (imprint{}) {
			return &tables{}, nil
		}
		if before != nil && before.err == nil && before.print == sum {
			return before, nil
		}
	case variantLegacy:
		if there, err := f.legacyTables(x.family); !there {
			return &tables{}, err
		}
	}
	saved, err := x.read(ctx, f.ns)
	if err != nil && !errors.Is(err, errUnreadable) {
		return nil, err
	}
	return &tables{sum, saved, err}, nil
}

// legacyTables reports whether iptables-legacy has one of the tables that
// matter. Asking it for a missing table would create the table.
func (f *Firewall) legacyTables(family cidr.Family) (there bool, err error) {
	var names []byte
	err = f.ns.Do(func() (err error) {
		names, err = os.ReadFile(wordsOf(family).procNames)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list tables of iptables-legacy: %w", err)
	}
	for _, h := range dataplane.Hooks {
		there = there || slices.Contains(strings.Fields(string(names)), placeOf(h).table)
	}
	return there, nil
}

// tool returns the tool for a family's chains of a flavour. It is not usable if
// it cannot read the chains that exist.
func (f *Firewall) tool(family cidr.Family, flavour dataplane.Flavour) driver.Tool {
	tool := f.tools.facts[family].Of(flavour)
	if x := f.tools.iptables[family]; x != nil && flavour == dataplane.IPTables {
		if err := f.seen.tables[family][x.variant].err; err != nil {
			return driver.Tool{About: err.Error()}
		}
	}
	return tool
}

// found returns our rules of a chain of iptables: those of the variant that
// makes chains here, and those of the other.
func (f *Firewall) found(k dataplane.ChainKey) (here, elsewhere found) {
	in := func(x *xtables) found {
		if x == nil {
			return found{}
		}
		return f.seen.tables[k.Family][x.variant].saved.at(k.Family, k.Hook)
	}
	return in(f.tools.iptables[k.Family]), in(f.tools.other[k.Family])
}

func (f *Firewall) facts() driver.FirewallFacts {
	var facts driver.FirewallFacts
	for _, family := range cidr.Families {
		facts.Tools[family].IPTables = f.tool(family, dataplane.IPTables)
		facts.Tools[family].NFTables = f.tool(family, dataplane.NFTables)
		_ = f.ns.Do(func() error {
			_, err := os.Stat(wordsOf(family).bridge)
			facts.Tools[family].BridgeFilter = err == nil
			return nil
		})
		facts.Blocks = append(facts.Blocks, f.blocks(family)...)
	}
	return facts
}

func (f *Firewall) blocks(family cidr.Family) []driver.ForwardBlock {
	var blocks []driver.ForwardBlock
	for _, b := range f.allBlocks(family) {
		if b.passed && f.writable(family, b.variant) {
			b.OverriddenBy = dataplane.IPTables
		}
		blocks = append(blocks, b.ForwardBlock)
	}
	slices.SortStableFunc(blocks, func(a, b driver.ForwardBlock) int { return cmp.Compare(a.By, b.By) })
	return blocks
}

// allBlocks returns the blocks of a family in nftables and iptables-legacy.
func (f *Firewall) allBlocks(family cidr.Family) []block {
	all := slices.DeleteFunc(slices.Clone(f.seen.nft.blocks), func(b block) bool { return b.Family != family })
	if t := f.seen.tables[family][variantLegacy]; t != nil {
		all = append(all, t.saved.blocks(family)...)
	}
	return all
}

// writable reports whether a variant of iptables is installed and can read its tables.
func (f *Firewall) writable(family cidr.Family, v variant) bool {
	t := f.seen.tables[family][v]
	return t != nil && t.err == nil
}

// inBoth reports whether a chain belongs into both variants of iptables: if the other
// variant's FORWARD drops packets, only a chain there can accept them.
func (f *Firewall) inBoth(k dataplane.ChainKey) bool {
	other := f.tools.other[k.Family]
	if k.Hook != dataplane.Forward || other == nil || !f.writable(k.Family, other.variant) {
		return false
	}
	return slices.ContainsFunc(f.allBlocks(k.Family), func(b block) bool {
		return b.passed && b.variant == other.variant
	})
}
