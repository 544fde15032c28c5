package firewall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// sight is what was read last, and by what to tell whether it is true still.
type sight struct {
	generation uint32 // 0: look again
	nft        nftView
	tables     [2]map[variant]*tables // by family
}

// tables is what a variant of iptables has stored.
type tables struct {
	print imprint
	saved saved
	err   error // they cannot be read, for instance since somebody's nft made them
}

// Inspect implements [driver.Firewall].
func (f *Firewall) Inspect(ctx context.Context) (driver.FirewallFacts, dataplane.State, error) {
	if err := f.look(ctx); err != nil {
		return driver.FirewallFacts{}, dataplane.State{}, fmt.Errorf("look at packet filter: %w", err)
	}
	state := dataplane.NewState(0)
	for _, c := range f.seen.nft.chains {
		if f.tools.nft != nil { // what cannot be changed is not reported
			state.AddChain(c)
		}
	}
	for _, family := range cidr.Families {
		for _, h := range dataplane.Hooks {
			k := dataplane.ChainKey{Flavour: dataplane.IPTables, Family: family, Hook: h}
			if here, elsewhere := f.found(k); here.any() || elsewhere.any() {
				state.AddChain(neutralIPTables(k, here, elsewhere))
			}
		}
	}
	return f.facts(), state, nil
}

// look brings the sight up to date. It starts a process only for tables of
// iptables that have changed.
func (f *Firewall) look(ctx context.Context) error {
	f.tools = f.tools.current(ctx, f.ns, time.Now())
	generation, err := f.nft.generation()
	if err != nil {
		return err
	}
	if generation == 0 || generation != f.seen.generation {
		f.seen.generation, f.seen.nft = 0, nftView{}
		if generation != 0 {
			if f.seen.nft, err = f.nft.look(); err != nil {
				return err
			}
		}
		after, err := f.nft.generation()
		if err != nil {
			return err
		}
		if after == generation { // otherwise the parts of the view may not fit together
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
		sum, err := f.printOf(x)
		if err != nil {
			return err
		}
		before := f.seen.tables[family][x.variant]
		switch {
		case sum == imprint{}:
			now[x.variant] = &tables{}
		case before != nil && before.err == nil && before.print == sum:
			now[x.variant] = before
		default:
			saved, err := x.read(ctx, f.ns)
			if err != nil && !errors.Is(err, errUnreadable) {
				return err
			}
			now[x.variant] = &tables{sum, saved, err}
		}
	}
	f.seen.tables[family] = now
	return nil
}

// printOf sums up the tables of a variant of iptables.
func (f *Firewall) printOf(x *xtables) (sum imprint, err error) {
	if x.variant == variantNFT {
		return f.seen.nft.iptables[x.family], nil
	}
	err = f.ns.Do(func() (err error) {
		sum, err = printLegacy(x.family)
		return err
	})
	return sum, err
}

// tool is what a family's chains of a flavour can be made with. It is of no use
// if what it made before cannot be read.
func (f *Firewall) tool(family cidr.Family, flavour dataplane.Flavour) driver.Tool {
	tool := f.tools.facts[family].Of(flavour)
	if x := f.tools.iptables[family]; x != nil && flavour == dataplane.IPTables {
		if err := f.seen.tables[family][x.variant].err; err != nil {
			return driver.Tool{About: err.Error()}
		}
	}
	return tool
}

// found is what there is of a chain of iptables: in the variant that makes
// chains here, and in the other.
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
		facts.Bars = append(facts.Bars, f.bars(family)...)
	}
	return facts
}

func (f *Firewall) bars(family cidr.Family) []driver.Bar {
	var bars []driver.Bar
	add := func(b bar) {
		if x := f.tools.iptables[family]; x != nil && b.variant == x.variant && b.passed {
			b.Yields = dataplane.IPTables
		}
		bars = append(bars, b.Bar)
	}
	for _, b := range f.seen.nft.bars {
		if b.Family == family {
			add(b)
		}
	}
	if t := f.seen.tables[family][variantLegacy]; t != nil {
		for _, b := range t.saved.bars(family) {
			add(b)
		}
	}
	slices.SortStableFunc(bars, func(a, b driver.Bar) int { return cmp.Compare(a.By, b.By) })
	return bars
}
