package harness

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/vishvananda/netns"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/drivers/linux/firewall"
)

// Rules reads flannel's chains of the host's packet filter.
func (h *Host) Rules(ctx context.Context) (facts driver.FirewallFacts, state *dataplane.State, err error) {
	f, err := firewall.Open(ctx, netns.NsHandle(h.space.FD()))
	if err != nil {
		return facts, state, fmt.Errorf("host %s: open its packet filter: %w", h.Name, err)
	}
	seen, err := f.Look(ctx, dataplane.Extent{})
	if err == nil {
		facts, state = seen.Facts.(driver.FirewallFacts), seen.State
	}
	return facts, state, errors.Join(err, f.Close())
}

// Shell runs commands on the host and returns their output.
func (h *Host) Shell(ctx context.Context, script string) (out string, err error) {
	var text []byte
	err = h.Do(func() error {
		text, err = exec.CommandContext(ctx, "sh", "-ec", script).CombinedOutput()
		return err
	})
	if err != nil {
		return "", fmt.Errorf("host %s: %s: %w: %s", h.Name, script, err, strings.TrimSpace(string(text)))
	}
	return string(text), nil
}
