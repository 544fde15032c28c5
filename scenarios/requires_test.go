package scenarios

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/drivers/linux/linuxtest"
)

// features are what a scenario may require of a real kernel, by a comment line
// "# requires=vxlan". Each is tried, in the tests' own namespace. What requires
// "simulator" is for no real kernel.
var features = map[string]func() error{
	"nft":   tryNft,
	"vxlan": func() error { return tryLink(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "probe"}, VxlanId: 1}) },

	"tun":      linuxtest.TryTUN,
	"firewall": hasFirewallTools,
}

// hasFirewallTools reports whether the host has the tools that make and break rules.
func hasFirewallTools() error {
	var errs []error
	for _, tool := range []string{"iptables", "ip6tables", "nft"} {
		_, err := exec.LookPath(tool)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// tryNft filters the packets that a bridge forwards, as the lab's wires do.
func tryNft() error {
	nft := exec.Command("nft", "-f", "-")
	nft.Stdin = strings.NewReader("add table bridge probe\ndelete table bridge probe\n")
	if said, err := nft.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, said)
	}
	return nil
}

func tryLink(l netlink.Link) error {
	if err := netlink.LinkAdd(l); err != nil {
		return err
	}
	return netlink.LinkDel(l)
}

// skipWithout skips the test if this machine lacks what the file requires.
func skipWithout(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range required(string(text)) {
		if name == "simulator" {
			t.Skip("its faults exist only in the simulator")
		}
		try, known := features[name]
		if !known {
			t.Fatalf("%s: requires=%s: unknown; known are %s",
				file, name, strings.Join(slices.Sorted(maps.Keys(features)), ", "))
		}
		if err := try(); err != nil {
			t.Skipf("this kernel lacks %s: %v", name, err)
		}
	}
}

// required lists the features that a file names.
func required(text string) []string {
	var names []string
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "# requires="); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}
