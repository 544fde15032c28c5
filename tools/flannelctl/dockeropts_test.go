package flannelctl

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
)

const dockerScript = "../../deploy/host/mk-docker-opts.sh"

// shells are the command lines of the shells that hosts have, by the package of each.
var shells = map[string][]string{
	"dash": {"dash"}, "bash": {"bash"}, "bash in posix mode": {"bash", "--posix"}, "busybox": {"busybox", "sh"},
}

// dockerCall is the outcome of a call.
type dockerCall struct {
	Status int
	File   string // what the call wrote
	Errors string // its first line, without the program's name
}

// dockerProgram runs one of the programs with these arguments.
type dockerProgram func(args []string) (status int, stdout, stderr string)

// eachDockerProgram tests flannelctl, and the script with each shell.
func eachDockerProgram(t *testing.T, test func(*testing.T, dockerProgram)) {
	t.Run("flannelctl", func(t *testing.T) {
		test(t, func(args []string) (int, string, string) { return call(append([]string{"docker-opts"}, args...)...) })
	})
	for name, shell := range shells {
		t.Run(name, func(t *testing.T) {
			for _, program := range []string{shell[0], "ip"} {
				if _, err := exec.LookPath(program); err != nil {
					t.Skipf("needs the program %s: apt-get install dash bash busybox iproute2", program)
				}
			}
			test(t, func(args []string) (int, string, string) {
				line := append(append(shell[1:len(shell):len(shell)], dockerScript), args...)
				var stdout, stderr bytes.Buffer
				cmd := exec.Command(shell[0], line...)
				cmd.Env = append(os.Environ(), "LC_ALL=C") // bash warns of a language that the machine lacks
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				if err := cmd.Run(); cmd.ProcessState == nil {
					t.Fatal(err)
				}
				return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
			})
		})
	}
}

// outcomeOf runs a program on a subnet file with this text.
func (p dockerProgram) outcomeOf(t *testing.T, env, args string) dockerCall {
	t.Helper()
	dir := t.TempDir()
	envFile, out := filepath.Join(dir, "subnet.env"), filepath.Join(dir, "out.env")
	if env != "" {
		if err := os.WriteFile(envFile, []byte(env), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	status, stdout, stderr := p(append([]string{"-f", envFile, "-d", out}, arguments(args)...))
	if stdout != "" {
		t.Errorf("printed %q", stdout)
	}
	written, err := os.ReadFile(out)
	if err != nil && status == 0 {
		t.Error(err)
	}
	if info, err := os.Stat(out); err == nil && info.Mode() != 0o644 {
		t.Errorf("wrote a file with mode %v", info.Mode())
	}
	if left, _ := filepath.Glob(out + ".*"); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	complaint, _, _ := strings.Cut(strings.ReplaceAll(stderr, dir, "DIR"), "\n")
	_, reason, _ := strings.Cut(complaint, ": ")
	return dockerCall{status, string(written), reason}
}

const (
	dockerEnv = "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_MTU=1450\n"
	masqTrue  = dockerEnv + "FLANNEL_IPMASQ=true\n"
	masqFalse = dockerEnv + "FLANNEL_IPMASQ=false\n"

	separateFalse = "DOCKER_OPT_BIP=\"--bip=10.5.72.1/24\"\nDOCKER_OPT_IPMASQ=\"--ip-masq=false\"\n" +
		"DOCKER_OPT_MTU=\"--mtu=1450\"\n"
	combinedFalse = "DOCKER_OPTS=\" --bip=10.5.72.1/24 --ip-masq=false --mtu=1450\"\n"
	combinedTrue  = "DOCKER_OPTS=\" --bip=10.5.72.1/24 --ip-masq=true --mtu=1450\"\n"
	withoutMasq   = "DOCKER_OPTS=\" --bip=10.5.72.1/24 --mtu=1450\"\n"
)

// Interop 4.4: what the script of older releases writes.
func TestDockerOpts(t *testing.T) {
	ok := func(file string) dockerCall { return dockerCall{File: file} }
	bad := func(complaint string) dockerCall { return dockerCall{Status: 1, Errors: complaint} }
	for name, c := range map[string]struct {
		env, args string
		want      dockerCall
	}{
		"both forms":        {masqTrue, "", ok(separateFalse + combinedFalse)},
		"both by name":      {masqTrue, "-c -i", ok(separateFalse + combinedFalse)},
		"separate":          {masqTrue, "-i", ok(separateFalse)},
		"combined":          {masqTrue, "-c", ok(combinedFalse)},
		"Docker masquerade": {masqFalse, "-c", ok(combinedTrue)},
		"no masquerade":     {masqFalse, "-mc", ok(withoutMasq)},
		"separate, no masquerade": {masqFalse, "-i -m",
			ok("DOCKER_OPT_BIP=\"--bip=10.5.72.1/24\"\nDOCKER_OPT_MTU=\"--mtu=1450\"\n")},
		"another key":         {masqTrue, "-c -k DOCKER_NETWORK_OPTIONS", ok("DOCKER_NETWORK_OPTIONS" + combinedFalse[11:])},
		"both families":       {masqTrue + "FLANNEL_IPV6_SUBNET=fd00:5::1/64\n", "-c", ok(combinedFalse)},
		"last value":          {"FLANNEL_MTU=9000\n" + masqTrue, "-c", ok(combinedFalse)},
		"no end of line":      {strings.TrimSuffix(masqTrue, "\n"), "-c", ok(combinedFalse)},
		"value without a use": {masqTrue + "HOME=$(touch /nowhere)\nFLANNEL_SUBNETS=1\n\n# x\n", "-c", ok(combinedFalse)},
		"no FLANNEL_IPMASQ":   {dockerEnv, "-c", ok(withoutMasq)},
		"no FLANNEL_MTU": {"FLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_IPMASQ=true\n", "-c",
			ok("DOCKER_OPTS=\" --bip=10.5.72.1/24 --ip-masq=false\"\n")},

		"IPv6 only": {"FLANNEL_IPV6_SUBNET=fd00:5::1/64\nFLANNEL_MTU=1430\nFLANNEL_IPMASQ=true\n", "",
			bad("DIR/subnet.env has no FLANNEL_SUBNET: Docker needs an IPv4 subnet")},
		"command in a value": {"FLANNEL_SUBNET=$(id)/24\n", "",
			bad("DIR/subnet.env: FLANNEL_SUBNET=$(id)/24 is no address with a prefix length")},
		"no length": {"FLANNEL_SUBNET=10.5.72.1\n", "",
			bad("DIR/subnet.env: FLANNEL_SUBNET=10.5.72.1 is no address with a prefix length")},
		"quote in a value": {dockerEnv + "FLANNEL_IPMASQ=\"true\"\n", "",
			bad("DIR/subnet.env: FLANNEL_IPMASQ=\"true\" is neither true nor false")},
		"MTU": {masqTrue + "FLANNEL_MTU=big\n", "", bad("DIR/subnet.env: FLANNEL_MTU=big is no number")},
		"bad key": {masqTrue, "-k A.B",
			dockerCall{Status: 2, Errors: "-k A.B: want the name of a variable"}},
	} {
		t.Run(name, func(t *testing.T) {
			eachDockerProgram(t, func(t *testing.T, p dockerProgram) {
				if d := cmp.Diff(c.want, p.outcomeOf(t, c.env, c.args)); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			})
		})
	}
}

// A missing subnet file, unknown options and a place that cannot be written give a
// status and an error, and change nothing.
func TestDockerOptsRefuse(t *testing.T) {
	eachDockerProgram(t, func(t *testing.T, p dockerProgram) {
		const missing = "cannot read the subnet file DIR/subnet.env: is flanneld running, and does it hold a subnet?"
		if got := p.outcomeOf(t, "", ""); got.Status != 1 || !strings.HasPrefix(got.Errors, missing) || got.File != "" {
			t.Errorf("without a subnet file: %+v", got)
		}
		for _, args := range []string{"-x", "word", "-k"} {
			if got := p.outcomeOf(t, masqTrue, args); got.Status != 2 || got.File != "" {
				t.Errorf("%s: %+v", args, got)
			}
		}
		if got := p.outcomeOf(t, masqTrue, "-d "+t.TempDir()); got.Status != 1 || got.Errors == "" {
			t.Errorf("a directory as the file: %+v", got)
		}
		if got := p.outcomeOf(t, masqTrue, "-d "+t.TempDir()+"/none/file"); got.Status != 1 || got.Errors == "" {
			t.Errorf("a file in no directory: %+v", got)
		}
	})
}

// The file is replaced and not written over: a reader of the old file keeps it. What
// cannot be replaced is written to.
func TestDockerOptsReplace(t *testing.T) {
	eachDockerProgram(t, func(t *testing.T, p dockerProgram) {
		dir := t.TempDir()
		env := filepath.Join(dir, "env")
		old, reader := filepath.Join(dir, "old"), filepath.Join(dir, "reader")
		for path, text := range map[string]string{env: masqTrue, old: "old\n"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Link(old, reader); err != nil {
			t.Fatal(err)
		}
		if status, _, stderr := p([]string{"-f", env, "-d", old, "-c"}); status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		if text, err := os.ReadFile(reader); err != nil || string(text) != "old\n" {
			t.Errorf("the reader has %q, %v", text, err)
		}
		status, stdout, stderr := p([]string{"-f", env, "-d", "/dev/stdout", "-c"})
		if status != 0 || stdout != combinedFalse {
			t.Errorf("to standard output: status %d, %q, %q", status, stdout, stderr)
		}
		target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if status, _, stderr := p([]string{"-f", env, "-d", link, "-c"}); status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		if text, err := os.ReadFile(target); err != nil || string(text) != combinedFalse {
			t.Errorf("through a link: %q, %v", text, err)
		}
	})
}

// insideEnv marks the run of this test binary in a network of its own.
const insideEnv = "FLANNEL_TEST_DOCKER_ROUTES"

func TestDockerOptsRoutes(t *testing.T) {
	if os.Getenv(insideEnv) != "" {
		testDockerOptsRoutes(t)
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestDockerOptsRoutes$", "-test.v")
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skip("needs a network namespace: as root, or where users may make user namespaces")
	}
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Skip("needs the programs dash, bash, busybox and ip: apt-get install dash bash busybox iproute2")
	}
}

// testDockerOptsRoutes checks that a route by a gateway to the own subnet, and no
// other route, ends the programs with status 1.
func testDockerOptsRoutes(t *testing.T) {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "uplink"}, PeerName: "wire"}
	if err := netlink.LinkAdd(veth); err != nil {
		t.Fatal(err)
	}
	address, err := netlink.ParseAddr("192.168.64.1/24")
	if err != nil {
		t.Fatal(err)
	}
	link, err := netlink.LinkByName("uplink")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.AddrAdd(link, address); err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dst     string
		gateway bool
		status  int
	}{
		{"10.5.0.0/16", true, 0},   // a wider one
		{"10.5.72.0/25", true, 0},  // a narrower one
		{"10.5.73.0/24", true, 0},  // a peer's
		{"10.5.72.0/24", false, 0}, // the bridge's
		{"10.5.72.0/24", true, 1},
	} {
		dst, err := netlink.ParseIPNet(c.dst)
		if err != nil {
			t.Fatal(err)
		}
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: dst}
		if c.gateway {
			route.Gw = address.IP.To4().Mask(address.Mask)
			route.Gw[3] = 2
		}
		if err := netlink.RouteAdd(route); err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		eachDockerProgram(t, func(t *testing.T, p dockerProgram) {
			got := p.outcomeOf(t, masqTrue, "-c")
			const complaint = "the subnet 10.5.72.1/24 has a route by a gateway, so its addresses are on another host: "
			switch refused := strings.HasPrefix(got.Errors, complaint) && got.File == ""; {
			case got.Status != c.status:
				t.Errorf("with the route %+v: %+v", c, got)
			case c.status == 1 && !refused:
				t.Errorf("refused, but: %+v", got)
			case c.status == 0 && got.File != combinedFalse:
				t.Errorf("with the route %+v: %+v", c, got)
			}
		})
		if err := netlink.RouteDel(route); err != nil {
			t.Fatal(err)
		}
	}
}

// On a full disk, for which a limit of no bytes a file stands here, the script leaves no file
// of its own beside the wanted one: Docker's unit calls it again and again.
func TestDockerScriptOnAFullDisk(t *testing.T) {
	const full = `trap "" XFSZ; ulimit -f 0; exec "$@"`
	for name, shell := range shells {
		t.Run(name, func(t *testing.T) {
			for _, program := range []string{shell[0], "ip"} {
				if _, err := exec.LookPath(program); err != nil {
					t.Skipf("needs the program %s: apt-get install dash bash busybox iproute2", program)
				}
			}
			dir := t.TempDir()
			env := filepath.Join(dir, "subnet.env")
			if err := os.WriteFile(env, []byte(masqTrue), 0o600); err != nil {
				t.Fatal(err)
			}
			line := append([]string{"-c", full, "sh"}, shell...)
			line = append(line, dockerScript, "-f", env, "-d", filepath.Join(dir, "out"))
			out, err := exec.Command("sh", line...).CombinedOutput()
			left, _ := filepath.Glob(filepath.Join(dir, "out*"))
			if err == nil || !strings.Contains(string(out), "cannot write") || len(left) > 0 {
				t.Errorf("%v, %q, left %v", err, out, left)
			}
		})
	}
}

// shellcheck finds nothing in the script.
func TestDockerScriptIsChecked(t *testing.T) {
	if _, err := exec.LookPath("shellcheck"); err != nil {
		t.Skip("needs the program shellcheck: apt-get install shellcheck")
	}
	if out, err := exec.Command("shellcheck", "--shell=sh", dockerScript).CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
