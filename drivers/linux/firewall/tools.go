package firewall

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/coreos/go-iptables/iptables"
	"sigs.k8s.io/knftables"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
)

// variant is one of the two programs called iptables.
type variant string

const (
	variantNFT    variant = "nft"    // over nf_tables
	variantLegacy variant = "legacy" // over tables of its own
)

// xtables is one variant of iptables for one family.
type xtables struct {
	family        cidr.Family
	variant       variant
	save, restore string // paths
	wait          bool   // restore can wait for the lock
}

// toolbox holds the programs that can make chains.
type toolbox struct {
	facts    [2]driver.Tools // by family; BridgeFilter is not set
	iptables [2]*xtables     // the program named iptables, nil if there is none
	other    [2]*xtables     // the other variant beside it
	nft      knftables.Interface

	files string    // the program files that this toolbox describes
	retry time.Time // when to look again, if a program was unusable
}

// again is the time until a failed program is tried again.
const again = time.Minute

// current returns the toolbox, and searches again if programs have changed.
func (t *toolbox) current(ctx context.Context, ns namespace.Namespace, now time.Time) *toolbox {
	files := programFiles()
	if t != nil && t.files == files && (t.retry.IsZero() || now.Before(t.retry)) {
		return t
	}
	fresh := &toolbox{files: files}
	fresh.findNFT(ctx, ns)
	for _, f := range cidr.Families {
		fresh.findIPTables(ctx, ns, f)
	}
	if fresh.broken() {
		fresh.retry = now.Add(again)
	}
	return fresh
}

// broken reports whether a program exists but does not work.
func (t *toolbox) broken() bool {
	for _, f := range cidr.Families {
		for _, tool := range []driver.Tool{t.facts[f].IPTables, t.facts[f].NFTables} {
			if !tool.Usable && !strings.HasPrefix(tool.About, missing) {
				return true
			}
		}
	}
	return false
}

// programNames returns the names of all programs that the driver runs or asks
// for their version.
func programNames() []string {
	names := []string{"nft"}
	for _, f := range cidr.Families {
		name := wordsOf(f).iptables
		names = append(names, name)
		for _, infix := range []string{"", "-" + string(variantNFT), "-" + string(variantLegacy)} {
			names = append(names, name+infix+"-save", name+infix+"-restore")
		}
	}
	return names
}

// programFiles lists the files of all programs in use, with their times.
func programFiles() string {
	var b strings.Builder
	for _, name := range programNames() {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if info, err := os.Stat(path); err == nil {
			fmt.Fprintln(&b, path, info.Size(), info.ModTime().UnixNano())
		}
	}
	return b.String()
}

// missing begins the error about programs that do not exist.
const missing = "no "

func notFound(name string) driver.Tool { return driver.Tool{About: missing + name + " in $PATH"} }

func (t *toolbox) findNFT(ctx context.Context, ns namespace.Namespace) {
	set := func(f cidr.Family, tool driver.Tool) { t.facts[f].NFTables = tool }
	for _, f := range cidr.Families {
		set(f, notFound("nft"))
	}
	path, err := exec.LookPath("nft")
	if err != nil {
		return
	}
	var about string
	about, err = run(ctx, ns, "", path, "--version")
	if err == nil {
		err = ns.Do(func() (err error) {
			t.nft, err = knftables.New("", "")
			return err
		})
	}
	for _, f := range cidr.Families {
		if err != nil {
			set(f, driver.Tool{About: oneLine(err.Error())})
			continue
		}
		tool := driver.Tool{Usable: true, About: oneLine(about)}
		tool.RandomFully = t.nftCan(ctx, ns, f, "masquerade fully-random")
		set(f, tool)
	}
}

// nftCan reports, by a dry run, whether the host knows a statement (interop
// 7.2).
func (t *toolbox) nftCan(ctx context.Context, ns namespace.Namespace, f cidr.Family, statement string) bool {
	const scratch = "masqueradeTest"
	tx := t.nft.NewTransaction()
	addTable(tx, f)
	addBase(tx, f, scratch, baseOf(dataplane.Postrouting))
	tx.Add(&knftables.Rule{Family: familyOf(f), Table: wordsOf(f).table, Chain: scratch, Rule: statement})
	return ns.Do(func() error { return t.nft.Check(ctx, tx) }) == nil
}

func (t *toolbox) findIPTables(ctx context.Context, ns namespace.Namespace, f cidr.Family) {
	name, fact := wordsOf(f).iptables, &t.facts[f].IPTables
	x, about, err := findXTables(ctx, ns, f, name)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		*fact = notFound(name)
	case err != nil:
		*fact = driver.Tool{About: err.Error()}
	default:
		var random bool
		if known, err := iptables.New(iptables.IPFamily(protocolOf(f))); err == nil {
			x.wait, random = waits(known), known.HasRandomFully()
		}
		*fact = driver.Tool{Usable: true, About: about, RandomFully: random}
		t.iptables[f] = x
		t.findOther(ctx, ns, x)
	}
}

// findOther finds the other variant beside the program called iptables.
func (t *toolbox) findOther(ctx context.Context, ns namespace.Namespace, x *xtables) {
	v := variantNFT
	if x.variant == variantNFT {
		v = variantLegacy
	}
	other, _, err := findXTables(ctx, ns, x.family, wordsOf(x.family).iptables+"-"+string(v))
	if err == nil && other.variant == v {
		other.wait = true // the two variants came long after --wait
		t.other[x.family] = other
	}
}

func protocolOf(f cidr.Family) iptables.Protocol {
	return [...]iptables.Protocol{iptables.ProtocolIPv4, iptables.ProtocolIPv6}[f]
}

// waits reports whether iptables-restore has --wait (1.6.2).
func waits(known *iptables.IPTables) bool {
	v1, v2, v3 := known.GetIptablesVersion()
	return v1 > 1 || v1 == 1 && (v2 > 6 || v2 == 6 && v3 >= 2)
}

// findXTables finds NAME-save and NAME-restore and identifies their variant.
func findXTables(ctx context.Context, ns namespace.Namespace, f cidr.Family, name string) (*xtables, string, error) {
	save, err := exec.LookPath(name + "-save")
	if err != nil {
		return nil, "", err
	}
	restore, err := exec.LookPath(name + "-restore")
	if err != nil {
		return nil, "", err
	}
	about, err := run(ctx, ns, "", restore, "--version")
	if err != nil {
		return nil, "", err
	}
	x := &xtables{family: f, variant: variantLegacy, save: save, restore: restore}
	if strings.Contains(about, "nf_tables") {
		x.variant = variantNFT
	}
	return x, oneLine(about), nil
}
