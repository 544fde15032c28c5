package scenarios

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/flanneld/flannel/drivers/linux"
	"github.com/flanneld/flannel/drivers/linux/charon"
	"github.com/flanneld/flannel/drivers/linux/linuxtest"
	"github.com/flanneld/flannel/internal/suite/outcome"
)

// features are what a scenario may require of a real kernel, by a comment line
// "# requires=vxlan". Each is tried in the tests' own namespace. A scenario that
// requires "simulator" runs on no real kernel, and one that requires "time" only if SCENARIO is its name.
var features = map[string]func() error{
	"nft": tryNft,
	"ipip": func() error {
		return tryLink(&netlink.Iptun{LinkAttrs: netlink.LinkAttrs{Name: "probe"},
			Local: net.IPv4(192, 0, 2, 1), Remote: net.IPv4(192, 0, 2, 2)})
	},
	"wireguard": func() error { return tryLink(&netlink.Wireguard{LinkAttrs: netlink.LinkAttrs{Name: "probe"}}) },
	"esp":       tryESP,
	"charon":    hasCharon,
	"arp":       func() error { return hasTools("arp", "bridge", "ip") },
	"ip":        func() error { return hasTools("ip") },
	"wg":        func() error { return hasTools("wg", "ip") },
	"vxlan":     func() error { return tryLink(&netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "probe"}, VxlanId: 1}) },
	"rename":    tryRename,

	"tun":      linuxtest.TryTUN,
	"firewall": hasFirewallTools,
}

var probing sync.Mutex

// hasFirewallTools reports whether the host has the tools that make and break rules.
func hasFirewallTools() error { return hasTools("iptables", "ip6tables", "nft") }

// hasTools reports whether the host has these programs.
func hasTools(names ...string) error {
	var errs []error
	for _, tool := range names {
		_, err := exec.LookPath(tool)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// tryNft reports whether nftables can filter the packets that a bridge forwards; the
// wires of the lab need it.
func tryNft() error {
	nft := exec.Command("nft", "-f", "-")
	nft.Stdin = strings.NewReader("add table bridge probe\ndelete table bridge probe\n")
	if said, err := nft.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, said)
	}
	return nil
}

// hasCharon reports whether the host has strongSwan's IKE daemon.
func hasCharon() error {
	_, err := charon.Find("")
	return err
}

// tryESP reports whether the kernel has ESP.
func tryESP() error {
	probing.Lock()
	defer probing.Unlock()
	return linux.TryESP()
}

// tryLink adds and deletes a link. All tests share the namespace and the name of the
// link, and run in parallel.
func tryLink(l netlink.Link) error {
	probing.Lock()
	defer probing.Unlock()
	if err := netlink.LinkAdd(l); err != nil {
		return err
	}
	return netlink.LinkDel(l)
}

// tryRename reports whether the kernel renames a link that is up (Linux 6.2).
func tryRename() error {
	probing.Lock()
	defer probing.Unlock()
	probe := &netlink.Vxlan{LinkAttrs: netlink.LinkAttrs{Name: "probe", Flags: net.FlagUp}, VxlanId: 1}
	if err := netlink.LinkAdd(probe); err != nil {
		return err
	}
	err := netlink.LinkSetName(probe, "probe2")
	return errors.Join(err, netlink.LinkDel(probe))
}

// skipWithout skips the test if this machine lacks what the file requires.
func skipWithout(t *testing.T, file string) {
	t.Helper()
	for _, name := range required(readFile(t, file)) {
		switch {
		case name == "simulator":
			t.Skip(outcome.SimulatorOnly)
		case name == "time" && os.Getenv("SCENARIO") != scenarioName(file):
			t.Skip(outcome.TooLong)
		case name == "time":
			continue
		}
		try, known := features[name]
		if !known {
			t.Fatalf("%s: requires=%s: unknown; known are %s",
				file, name, strings.Join(slices.Sorted(maps.Keys(features)), ", "))
		}
		if err := try(); err != nil {
			t.Skipf("this machine lacks %s: %v", name, err)
		}
	}
}

// rare are the features that many kernels lack, and the VM's has: a run in the VM that
// names no files takes those that require one of them.
var rare = []string{"wireguard", "ipip", "esp"}

// forVM reports whether a file belongs to a run in the VM that names no files.
func forVM(text string) bool {
	return slices.Contains(marks(text, "also"), "vm") ||
		slices.ContainsFunc(required(text), func(feature string) bool { return slices.Contains(rare, feature) })
}

// required lists the features that a file names, and those that its backends need
// whatever the kernel has, such as ip for operators' commands: files that the search writes name none.
func required(text string) []string {
	names := marks(text, "requires")
	for _, need := range []struct{ backend, feature string }{{"extension", "ip"}, {"udp", "tun"}, {"wireguard", "tun"}} {
		named := strings.Contains(text, " backend="+need.backend) || strings.Contains(text, `"Type":"`+need.backend+`"`)
		if named && !slices.Contains(names, need.feature) {
			names = append(names, need.feature)
		}
	}
	return names
}

// marks lists the values of a file's comments "# key=value".
func marks(text, key string) []string {
	var names []string
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "# "+key+"="); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}
