package check

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/tools/trace"
)

// Sources say where the facts are.
type Sources struct {
	Host     driver.Lane  // nil if it cannot be opened
	Firewall driver.Lane  // nil if it cannot be opened
	Kernel   trace.Kernel // which says what happens to packets; nil: it is not asked
	Daemons  func() ([]int, error)
	// Daemon returns what a running daemon answers; nil if it is not to be asked.
	Daemon func(context.Context) (node.Status, []node.Peer, error)

	Root       string // of /proc, /sys, /etc and the other files; "" is the host's own
	Config     []byte // network config, nil if none is known
	Assigned   bool   // Kubernetes assigns the subnets
	SubnetFile string
	Folders    []string // that flannel writes to
	CNIConf    string   // folder of the CNI configuration
	Store      Store
	// Time returns the time of the datastore; nil if there is none to ask.
	Time func(context.Context) (time.Time, error)
}

// at returns the path of a file below the root.
func (s Sources) at(path string) string { return filepath.Join("/", s.Root, path) }

// gatherer collects facts, and notes what it could not read.
type gatherer struct {
	Sources
	f Facts
}

// Gather reads the facts of a host. That something cannot be read is a fact too.
func Gather(ctx context.Context, s Sources) *Facts {
	g := &gatherer{Sources: s}
	g.f.Chains = dataplane.NewState()
	g.f.Assigned, g.f.Store = s.Assigned, s.Store
	before := g.readBounds()
	if s.Config != nil {
		network, _, err := node.CheckConfig(s.Config, s.Assigned)
		if err != nil {
			g.f.ConfigError = err.Error()
		} else {
			g.f.Network = &network
		}
	}
	var err error
	g.f.Daemons, err = s.Daemons()
	g.note("processes", err)
	g.f.Hidden = err != nil
	g.readDaemon(ctx)
	g.readSubnetFile()
	g.readModules()
	g.readSysctls()
	g.readLanes(ctx)
	g.readRoutes()
	g.readPaths(ctx)
	g.readPorts()
	g.readProcesses()
	g.readSettings()
	g.readPods()
	g.readDisks()
	g.readClock(ctx)
	g.compareBounds(before)
	return &g.f
}

// note records that something could not be read.
func (g *gatherer) note(what string, err error) {
	if err != nil {
		g.f.Unknown = append(g.f.Unknown, fmt.Sprintf("%s could not be read: %v", what, err))
	}
}

// text returns the content of a file, "" if it does not exist.
func (g *gatherer) text(path string) string {
	data, err := os.ReadFile(g.at(path))
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		g.note(path, err)
	}
	return string(data)
}

func (g *gatherer) exists(path string) bool {
	_, err := os.Stat(g.at(path))
	return err == nil
}

// readDaemon asks the daemon. Silence is worth a note only if one runs.
func (g *gatherer) readDaemon(ctx context.Context) {
	if g.Daemon == nil {
		return
	}
	status, peers, err := g.Daemon(ctx)
	switch {
	case err == nil:
		g.f.Status, g.f.Peers = &status, peers
	case len(g.f.Daemons) > 0 && errors.Is(err, context.DeadlineExceeded):
		g.f.Hangs = err.Error()
	case len(g.f.Daemons) > 0:
		g.note("what flanneld knows of its peers", err)
	}
}

func (g *gatherer) readSubnetFile() {
	text := g.text(g.SubnetFile)
	g.f.SubnetFile = SubnetFile{Path: g.SubnetFile, Exists: g.exists(g.SubnetFile),
		Subnet: subnetfile.Previous([]byte(text))}
	for _, line := range lines(text) {
		name, value, _ := strings.Cut(line, "=")
		switch name {
		case "FLANNEL_MTU":
			_, err := fmt.Sscan(value, &g.f.SubnetFile.MTU)
			g.note("FLANNEL_MTU", err)
		case "FLANNEL_IPMASQ":
			g.f.SubnetFile.Masq = value == "true"
		}
	}
}

// readModules finds the modules that any backend may need.
func (g *gatherer) readModules() {
	g.f.TUN = g.exists("/dev/net/tun")
	g.f.Modules = map[string]Module{}
	release := strings.TrimSpace(g.text("/proc/sys/kernel/osrelease"))
	g.readOptions(release)
	known := g.exists("/lib/modules/" + release + "/modules.dep")
	lists := g.text("/lib/modules/"+release+"/modules.builtin") + "\x00" + g.text("/lib/modules/"+release+"/modules.dep")
	builtin, loadable, _ := strings.Cut(lists, "\x00")
	loaded := g.text("/proc/modules")
	for _, want := range needs {
		for _, name := range want.modules {
			file := "/" + name + ".ko"
			switch {
			case strings.HasPrefix(loaded, name+" ") || strings.Contains(loaded, "\n"+name+" "):
				g.f.Modules[name] = Loaded
			case g.exists("/sys/module/"+name) || strings.Contains(builtin, file):
				g.f.Modules[name] = Loaded
			case strings.Contains(loadable, file):
				g.f.Modules[name] = Loadable
			case known:
				g.f.Modules[name] = Missing
			default:
				g.f.Modules[name] = g.byOption(name)
			}
		}
	}
}

func (g *gatherer) readSysctls() {
	g.f.Sysctls = map[string]string{}
	paths := []string{bridgeV4, bridgeV6}
	for _, f := range cidr.Families {
		paths = append(paths, dataplane.Forwarding(f).Path)
	}
	for _, path := range paths {
		if file := "/proc/sys/" + path; g.exists(file) {
			g.f.Sysctls[path] = strings.TrimSpace(g.text(file))
		}
	}
}

// readLanes asks the daemon's own drivers.
func (g *gatherer) readLanes(ctx context.Context) {
	if g.Host == nil || g.Firewall == nil {
		g.f.Unknown = append(g.f.Unknown, "devices and rules could not be read; run as root")
		return
	}
	seen, err := g.Host.Look(ctx, dataplane.Extent{})
	g.note("devices", err)
	if facts, ok := seen.Facts.(driver.HostFacts); ok {
		g.f.Host = facts
	}
	rules, err := g.Firewall.Look(ctx, dataplane.Extent{})
	g.note("rules", err)
	if facts, ok := rules.Facts.(driver.FirewallFacts); ok {
		g.f.Firewall, g.f.Chains = facts, rules.State
	}
}

// readProcesses finds programs that may disturb flannel. The kernel keeps 15
// characters of a name.
func (g *gatherer) readProcesses() {
	g.f.Processes = map[string]bool{}
	names, _ := filepath.Glob(g.at("/proc/[0-9]*/comm")) // the pattern is well formed
	for _, name := range names {
		comm, _ := os.ReadFile(name) // a process may have ended
		for _, program := range []string{"firewalld", "NetworkManager", "systemd-networkd"} {
			if strings.TrimSpace(string(comm)) == program[:min(len(program), 15)] {
				g.f.Processes[program] = true
			}
		}
	}
}

// settings are patterns of the configuration files that matter.
var settings = []string{
	"/etc/NetworkManager/NetworkManager.conf", "/etc/NetworkManager/conf.d/*.conf",
	"/usr/lib/NetworkManager/conf.d/*.conf",
	"/etc/systemd/networkd.conf", "/etc/systemd/networkd.conf.d/*.conf", "/usr/lib/systemd/networkd.conf.d/*.conf",
	"/etc/systemd/network/*.link", "/usr/lib/systemd/network/*.link", "/lib/systemd/network/*.link",
}

func (g *gatherer) readSettings() {
	g.f.Settings = map[string]string{}
	for _, pattern := range settings {
		paths, _ := filepath.Glob(g.at(pattern)) // the pattern is well formed
		for _, path := range paths {
			data, err := os.ReadFile(path)
			g.note(path, err)
			g.f.Settings[path] = string(data)
		}
	}
	for _, line := range lines(g.text("/etc/firewalld/zones/trusted.xml")) {
		if _, rest, ok := strings.Cut(line, `<interface name="`); ok {
			name, _, _ := strings.Cut(rest, `"`)
			g.f.Trusted = append(g.f.Trusted, name)
		}
	}
	entries, err := os.ReadDir(g.at(g.CNIConf))
	if !errors.Is(err, fs.ErrNotExist) {
		g.note(g.CNIConf, err)
	}
	for _, e := range entries {
		g.f.CNI = append(g.f.CNI, e.Name())
	}
	slices.Sort(g.f.CNI)
	switch strings.TrimSpace(g.text("/sys/fs/selinux/enforce")) {
	case "0":
		g.f.SELinux = "permissive"
	case "1":
		g.f.SELinux = "enforcing"
	}
}

func (g *gatherer) readClock(ctx context.Context) {
	if g.Time == nil {
		return
	}
	theirs, err := g.Time(ctx)
	g.note("the datastore's clock", err)
	if err == nil {
		g.f.Ahead, g.f.Clock = time.Since(theirs), true
	}
}
