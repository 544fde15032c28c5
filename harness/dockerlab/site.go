package dockerlab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/harness"
	"github.com/flanneld/flannel/harness/internal/machine"
)

// ProgramsEnv is the variable that names the folder of hack/docker-programs.
const ProgramsEnv = "FLANNEL_LAB_DOCKER"

// scratchDir is on the file system of the lab's own.
const scratchDir = "/dev/shm/docker"

// The places where an engine finds the files of others.
const (
	programsDir = "/opt/docker" // the folder of hack/docker-programs
	scriptsDir  = "/usr/libexec/flannel"
	toolPath    = "/usr/sbin/flannelctl"
	runDir      = "/run/flannel" // of the node's flanneld
	imagePath   = "/opt/image.tar"
)

// OwnNetworkOff are options for a dockerd that makes no network and no firewall rules. Its containers have the
// network of the engine, or none.
const OwnNetworkOff = "--bridge=none --iptables=false --ip-forward=false"

// Options say where the programs are.
type Options struct {
	Programs string // the folder of hack/docker-programs
	Tool     string // flannelctl
	Host     string // the folder deploy/host

	// Binds are further folders that the engines' machines see, and at which places.
	Binds map[string]string
}

// Site is the engines of a lab.
type Site struct {
	Engines []*Engine // one for each node, in the order of the nodes; a builder's one

	options   Options
	group     *machine.Group
	image     string // its archive
	dropIn    dropIn
	libraries []string // the folders of the programs' libraries, as an engine sees them
}

// Missing returns what this system lacks for engines, or nil.
func Missing() error {
	if _, err := exec.LookPath("iptables"); err != nil {
		return errors.New("needs iptables: make deps")
	}
	return machine.Missing(scratchDir)
}

// New makes a machine for an engine on each node of the lab, and starts containerd on it.
// No dockerd runs yet.
func New(ctx context.Context, lab *harness.Lab, o Options) (*Site, error) {
	return newSite(o, func(s *Site) error {
		for _, n := range lab.Nodes {
			if err := s.addNode(ctx, n); err != nil {
				return err
			}
		}
		return nil
	})
}

// NewBuilder makes a machine for one engine that builds images, and starts containerd on it. The engine has the
// network of this system, of which it changes no rule, link or setting.
func NewBuilder(ctx context.Context, o Options) (*Site, error) {
	return newSite(o, func(s *Site) error {
		network, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", os.Getppid())) // Reexec's first run is in it
		if err != nil {
			return err
		}
		defer network.Close() // the machine has its own copy
		e := &Engine{name: "builder", Plain: true, Options: OwnNetworkOff}
		return s.addEngine(ctx, e, network, nil)
	})
}

// newSite makes the files that engines share, and then the engines.
func newSite(o Options, engines func(*Site) error) (*Site, error) {
	s := &Site{options: o}
	err := s.prepare()
	if err == nil {
		err = engines(s)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("run Docker engines: %w", err), s.Close())
	}
	return s, nil
}

// prepare makes everything except the engines.
func (s *Site) prepare() (err error) {
	s.dropIn, err = readDropIn(filepath.Join(s.options.Host, "docker.service.d/flannel.conf"))
	if err != nil {
		return err
	}
	for _, place := range []string{"lib", "usr/lib"} {
		folders, err := filepath.Glob(filepath.Join(s.options.Programs, place, "*-linux-gnu"))
		if err != nil {
			return err
		}
		for _, folder := range folders {
			s.libraries = append(s.libraries, filepath.Join(programsDir, place, filepath.Base(folder)))
		}
	}
	if err := os.MkdirAll(scratchDir, 0o755); err != nil {
		return err
	}
	s.image, err = writeImage(filepath.Join(s.options.Programs, "bin/busybox"), scratchDir)
	if err != nil {
		return err
	}
	s.group, err = machine.NewGroup("flannel-docker")
	return err
}

// addNode adds the engine of a node.
func (s *Site) addNode(ctx context.Context, n *harness.Node) error {
	host, err := filepath.Abs(s.options.Host)
	if err != nil {
		return err
	}
	tool, err := filepath.Abs(s.options.Tool)
	if err != nil {
		return err
	}
	fd, err := unix.FcntlInt(uintptr(n.NamespaceFD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	network := os.NewFile(uintptr(fd), "network of "+n.Name)
	defer network.Close() // the machine has its own copy
	return s.addEngine(ctx, &Engine{Node: n, name: n.Name}, network,
		map[string]string{host: scriptsDir, tool: toolPath, filepath.Dir(n.SubnetFile()): runDir, s.image: imagePath})
}

// addEngine boots the machine of an engine and starts containerd, which runs apart from
// Docker's unit and goes on while dockerd restarts.
func (s *Site) addEngine(ctx context.Context, e *Engine, network *os.File, binds map[string]string) (err error) {
	e.dropIn, e.libraries = s.dropIn, "LD_LIBRARY_PATH="+strings.Join(s.libraries, ":")
	all := map[string]string{s.options.Programs: programsDir}
	maps.Copy(all, s.options.Binds)
	maps.Copy(all, binds)
	dir := filepath.Join(scratchDir, e.name)
	e.machine, err = machine.Boot(ctx, machine.Options{
		Name: e.name, Group: s.group, Network: network,
		Disk: filepath.Join(dir, "disk"), Root: filepath.Join(dir, "root"), Log: dir + ".log",
		Binds: all,
		Kept:  []string{"/var/lib/docker", "/var/lib/containerd"},
		Path:  []string{programsDir + "/usr/bin", programsDir + "/usr/sbin"},
	})
	if err != nil {
		return err
	}
	s.Engines = append(s.Engines, e)
	return e.startContainerd(ctx)
}

// Cgroups returns the folders of the engines' cgroups, which hold all their processes.
func (s *Site) Cgroups() []string { return s.group.Dirs() }

// Close ends all engines at once and returns when their cgroups are gone.
func (s *Site) Close() error {
	var errs []error
	for _, e := range s.Engines {
		errs = append(errs, e.machine.PowerOff())
	}
	if s.group != nil {
		errs = append(errs, s.group.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(scratchDir))...)
}
