package firewall

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/internal/namespace"
)

// lockWait is how many seconds iptables-restore waits for its lock, which
// iptables-legacy has.
const lockWait = 5

// change is a change to the chain of one hook in iptables.
type change struct {
	want  *dataplane.Chain // nil: delete the chain
	found found            // the chain's current parts
	hook  dataplane.Hook
}

// script writes changes for iptables-restore --noflush: one block for each
// table. The kernel applies all of a block or nothing.
func script(changes []change) (string, error) {
	var b strings.Builder
	for _, c := range changes {
		if c.want == nil && !c.found.any() {
			continue
		}
		p := placeOf(c.hook)
		fmt.Fprintf(&b, "*%s\n", p.table)
		// Declaring a chain empties it if it exists, and creates it otherwise.
		fmt.Fprintf(&b, ":%s - [0:0]\n", p.own)
		var rules []dataplane.Rule
		if c.want != nil {
			var err error
			rules, err = c.want.Rules.List()
			if err != nil {
				return "", err
			}
		}
		for _, r := range rules {
			spec, err := specOf(r, p.comment)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "-A %s %s\n", p.own, spec)
		}
		for _, r := range c.found.former {
			fmt.Fprintf(&b, "-D %s %s\n", p.shared, r.spec)
		}
		c.jump(&b, p, rules)
		b.WriteString("COMMIT\n")
	}
	return b.String(), nil
}

// jump writes the changes of the jumps from the shared chain. At the hook input they come first, and lead only
// the packets into our chain that its rules are about: it may be long.
func (c change) jump(b *strings.Builder, p place, rules []dataplane.Rule) {
	kinds := []dataplane.Rule{{}}
	if c.hook == dataplane.Input {
		kinds = entrants(rules)
	}
	keep := c.want != nil && c.found.placed && (c.hook != dataplane.Input || slices.Equal(kinds, c.found.kinds()))
	if !keep {
		for _, r := range c.found.jumps {
			fmt.Fprintf(b, "-D %s %s\n", p.shared, r.spec)
		}
	}
	switch {
	case c.want == nil:
		fmt.Fprintf(b, "-X %s\n", p.own)
	case keep:
		return
	case c.hook == dataplane.Input:
		for _, kind := range slices.Backward(kinds) {
			fmt.Fprintf(b, "-I %s %s\n", p.shared, jumpSpec(p, kind))
		}
	default:
		fmt.Fprintf(b, "-A %s %s\n", p.shared, jumpSpec(p, dataplane.Rule{}))
	}
}

// write runs a script in one process, which waits that many seconds for the
// lock.
func (x *xtables) write(ctx context.Context, ns namespace.Namespace, wait int, script string) error {
	if script == "" {
		return nil
	}
	args := []string{"--noflush"}
	if x.wait {
		args = append(args, "--wait", strconv.Itoa(wait))
	}
	_, err := run(ctx, ns, script, x.restore, args...)
	if err != nil && classOf(err) == driver.ErrBusy {
		return fmt.Errorf("another program holds the lock of iptables for more than %d s, or changes the same tables: %w",
			wait, err)
	}
	return err
}

// errUnreadable says that iptables-save refuses to read its tables.
var errUnreadable = errors.New("the tables of iptables cannot be read")

// read runs iptables-save.
func (x *xtables) read(ctx context.Context, ns namespace.Namespace) (saved, error) {
	out, err := run(ctx, ns, "", x.save)
	var refusal *processError
	if errors.As(err, &refusal) && refusal.status > 0 {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if err != nil {
		return nil, err
	}
	s, err := parseSave(out)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", errUnreadable, filepath.Base(x.save), err)
	}
	return s, nil
}
