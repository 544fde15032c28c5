package vm_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/flanneld/flannel/harness/vm"
	"github.com/flanneld/flannel/harness/vm/wire"
)

// programEnv is the variable that names the guest's program. make test-vm builds the
// program and sets the variable.
const programEnv = "FLANNEL_LAB_VM"

// bootBound is the time that a machine has to boot on a busy host.
const bootBound = 3 * time.Minute

// lab is the machine that the tests share: a boot takes seconds.
type lab struct {
	*vm.Machine
	writable *vm.Scratch
}

// shared boots the shared machine when the first test asks for it.
var shared = sync.OnceValues(func() (lab, error) {
	scratch, err := vm.NewScratch()
	if err != nil {
		return lab{}, err
	}
	kernel, err := vm.Find()
	if err != nil {
		return lab{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), bootBound)
	defer cancel()
	m, err := vm.Boot(ctx, vm.Options{Kernel: kernel, Guest: os.Getenv(programEnv), Writable: []string{scratch.Dir}})
	return lab{m, scratch}, err
})

func TestMain(m *testing.M) {
	if os.Getenv(holdEnv) != "" {
		os.Exit(hold())
	}
	status := m.Run()
	if os.Getenv(programEnv) != "" {
		machine, err := shared()
		if err == nil {
			err = errors.Join(machine.Close(), machine.writable.Remove())
		}
		if err != nil {
			status = max(1, status)
		}
	}
	os.Exit(status)
}

// need skips a test where machines are not wanted, and returns the guest's program.
func need(t *testing.T) string {
	t.Helper()
	program := os.Getenv(programEnv)
	if program == "" {
		t.Skip("no virtual machine is wanted here: make test-vm boots one")
	}
	return program
}

func machine(t *testing.T) lab {
	t.Helper()
	need(t)
	m, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// sh runs a script in a machine.
func sh(t *testing.T, m *vm.Machine, script string) (status int, output string, err error) {
	t.Helper()
	var out bytes.Buffer
	status, err = m.Run(t.Context(), wire.Command{Args: []string{"sh", "-c", script}, Env: os.Environ()}, &out, &out)
	return status, out.String(), err
}

// TestKernelHas checks that the machine's kernel has the features that the host's may lack.
func TestKernelHas(t *testing.T) {
	for name, script := range map[string]string{
		"wireguard": "ip link add wg0 type wireguard && ip link show wg0",
		"ipip":      "ip link add ipip0 type ipip local 192.0.2.1 remote 192.0.2.2 && ip link show ipip0",
		"dummy":     "ip link add dummy0 type dummy && ip link show dummy0",
		"vxlan":     "ip link add vxlan0 type vxlan id 1 local 192.0.2.1 dstport 8472 && ip link show vxlan0",
		"veth":      "ip link add veth0 type veth peer veth1 && ip link show veth1",
		"bridge":    "ip link add bridge0 type bridge && ip link show bridge0",
		"tun":       "ip tuntap add tun0 mode tun && ip link show tun0",
		"netem": "ip link add netem0 type dummy && tc qdisc add dev netem0 root netem delay 10ms && " +
			"tc qdisc show dev netem0 | grep netem",
		"nftables": "nft add table inet probe && " +
			"nft add chain inet probe c '{ type nat hook postrouting priority 0; }' && nft add rule inet probe c masquerade",
		"ESP": "ip xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi 1 mode tunnel aead 'rfc4106(gcm(aes))' 0x" +
			strings.Repeat("00", 20) + " 128 && ip xfrm state | grep esp",
		"user namespaces": "unshare --user --net true",
	} {
		t.Run(name, func(t *testing.T) {
			if status, out, err := sh(t, machine(t).Machine, script); status != 0 || err != nil {
				t.Errorf("status %d, error %v: %s", status, err, out)
			}
		})
	}
}

func TestCommand(t *testing.T) {
	m := machine(t)
	dir := t.TempDir()
	var out, said bytes.Buffer
	status, err := m.Run(t.Context(), wire.Command{
		Args: []string{"sh", "-c", "pwd; echo $COLOUR; echo trouble >&2; uname -r; exit 7"},
		Dir:  dir, Env: []string{"COLOUR=green"},
	}, &out, &said)
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := vm.Find()
	if err != nil {
		t.Fatal(err)
	}
	want := dir + "\ngreen\n" + kernel.Release + "\n"
	if status != 7 || out.String() != want || said.String() != "trouble\n" {
		t.Errorf("status %d, output %q, error output %q, want 7, %q, %q", status, &out, &said, want, "trouble\n")
	}
}

func TestCommandThatDoesNotExist(t *testing.T) {
	m := machine(t)
	_, err := m.Run(t.Context(), wire.Command{Args: []string{"/no/such/program"}}, os.Stdout, os.Stderr)
	if err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("error %v, want one that names the program", err)
	}
}

// TestCommandReads checks that a command answers what it is sent, as long as the caller wants.
func TestCommandReads(t *testing.T) {
	m := machine(t)
	stdin, to := io.Pipe()
	from, stdout := io.Pipe()
	status := make(chan int, 1)
	go func() {
		defer stdout.Close()
		const script = `while read -r word && [ "$word" != end ]; do echo "<$word>"; done; exit 5`
		c := wire.Command{Args: []string{"sh", "-c", script}}
		got, err := m.Converse(t.Context(), c, stdin, stdout, os.Stderr)
		if err != nil {
			t.Error(err)
		}
		status <- got
	}()
	answers := bufio.NewScanner(from)
	for _, word := range []string{"one", "two"} {
		if _, err := io.WriteString(to, word+"\n"); err != nil {
			t.Fatal(err)
		}
		if !answers.Scan() || answers.Text() != "<"+word+">" {
			t.Errorf("%s is answered by %q", word, answers.Text())
		}
	}
	if _, err := io.WriteString(to, "end\n"); err != nil {
		t.Fatal(err)
	}
	if got := <-status; got != 5 {
		t.Errorf("status %d, want 5", got)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestCommandEndsWithItsContext checks that a command dies when its caller gives it up, and
// that the machine survives.
func TestCommandEndsWithItsContext(t *testing.T) {
	m := machine(t)
	ctx, cancel := context.WithCancel(t.Context())
	started := writer(func() { cancel() })
	_, err := m.Run(ctx, wire.Command{Args: []string{"sh", "-c", "echo started; exec sleep 1000"}}, started, os.Stderr)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	if status, out, err := sh(t, m.Machine, "pgrep -x sleep"); status == 0 || err != nil {
		t.Errorf("sleep still runs: %s%v", out, err)
	}
}

// writer calls a function for each write.
type writer func()

func (w writer) Write(text []byte) (int, error) { w(); return len(text), nil }

// TestFiles checks that the files of a command reach the host in a writable folder, and
// nowhere else.
func TestFiles(t *testing.T) {
	m := machine(t)
	here := t.TempDir()
	script := "echo result > " + m.writable.Dir + "/result && echo lost > " + here + "/lost && cat " + here + "/lost"
	status, out, err := sh(t, m.Machine, script)
	if status != 0 || err != nil || out != "lost\n" {
		t.Fatalf("status %d, output %q, error %v", status, out, err)
	}
	text, err := os.ReadFile(filepath.Join(m.writable.Dir, "result"))
	if err != nil || string(text) != "result\n" {
		t.Errorf("the writable folder has %q (%v), want the result", text, err)
	}
	if left, _ := filepath.Glob(here + "/*"); len(left) > 0 {
		t.Errorf("the command wrote %q into a folder that is not writable", left)
	}
}

// TestClock checks that the guest's clock runs as fast as the host's, even if the host is
// busy.
func TestClock(t *testing.T) {
	m := machine(t)
	read := func() (guest time.Duration, host time.Time) {
		_, out, err := sh(t, m.Machine, "cut -d ' ' -f 1 /proc/uptime")
		if err != nil {
			t.Fatal(err)
		}
		guest, err = time.ParseDuration(strings.TrimSpace(out) + "s")
		if err != nil {
			t.Fatal(err)
		}
		return guest, time.Now()
	}
	from, started := read()
	for range 10 {
		if _, _, err := sh(t, m.Machine, "seq 1000 >/dev/null"); err != nil {
			t.Fatal(err)
		}
	}
	to, ended := read()
	there, here := to-from, ended.Sub(started)
	if there < here/2 || there > here*2 {
		t.Errorf("%s passed in the machine and %s here", there, here)
	}
}

func TestSlowness(t *testing.T) {
	m := machine(t)
	factor, err := m.Slowness(t.Context(), need(t))
	if err != nil || factor < 2 {
		t.Errorf("slowness %.1f (%v): an emulated machine is slower than its host", factor, err)
	}
	t.Logf("%.1f times slower than this host", factor)
}

// TestPanic checks that a machine that panics ends, and that its error says why. It must
// be the last test of the shared machine.
func TestPanic(t *testing.T) {
	m := machine(t)
	_, _, err := sh(t, m.Machine, "echo c > /proc/sysrq-trigger")
	if !errors.Is(err, vm.ErrEnded) || !strings.Contains(err.Error(), "sysrq triggered crash") {
		t.Errorf("error %v, want the kernel's reason", err)
	}
	wantConsole(t, err)
	if _, _, err := sh(t, m.Machine, "true"); !errors.Is(err, vm.ErrEnded) {
		t.Errorf("a command after the end: error %v, want %v", err, vm.ErrEnded)
	}
}

// TestBootLimit checks that Boot gives up when its context ends.
func TestBootLimit(t *testing.T) {
	program := need(t)
	kernel, err := vm.Find()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = vm.Boot(ctx, vm.Options{Kernel: kernel, Guest: program})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want canceled", err)
	}
	wantConsole(t, err)
}

// hang stops the QEMU that a process started last, as if the guest's kernel hung.
func hang(t *testing.T, parent int, others []string) {
	t.Helper()
	machines := children(t, parent, "qemu")
	machines = slices.DeleteFunc(machines, func(pid string) bool { return slices.Contains(others, pid) })
	if len(machines) != 1 {
		t.Fatalf("process %d has the new machines %v, want one", parent, machines)
	}
	pid, err := strconv.Atoi(machines[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// TestSilentGuest checks that callers do not wait forever for a guest that hangs.
func TestSilentGuest(t *testing.T) {
	program := need(t)
	t.Parallel()
	kernel, err := vm.Find()
	if err != nil {
		t.Fatal(err)
	}
	others := children(t, os.Getpid(), "qemu")
	ctx, cancel := context.WithTimeout(t.Context(), bootBound)
	defer cancel()
	m, err := vm.Boot(ctx, vm.Options{Kernel: kernel, Guest: program, Silence: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	started := writer(func() { hang(t, os.Getpid(), others) })
	sleep := wire.Command{Args: []string{"sh", "-c", "echo started; exec sleep 1000"}}
	_, err = m.Run(t.Context(), sleep, started, os.Stderr)
	if !errors.Is(err, vm.ErrSilent) {
		t.Errorf("error %v, want %v", err, vm.ErrSilent)
	}
	wantConsole(t, err)
}

// TestLimitOfAGuestThatHangs checks that the limit of vm run also holds if the guest hangs.
func TestLimitOfAGuestThatHangs(t *testing.T) {
	program := need(t)
	t.Parallel()
	runtime.LockOSThread() // vm run ends with the thread that started it
	cmd := exec.Command(program, "run", "-limit", "3m", "--", program, "exec", "sh", "-c", "echo up; exec sleep 1000")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the program ended before its machine was up: %v", err)
	}
	hang(t, cmd.Process.Pid, nil)
	if err := cmd.Wait(); err == nil || !strings.Contains(said.String(), "the machine ran for 3m0s") {
		t.Errorf("error %v, and it said %q", err, &said)
	}
}

// wantConsole checks that a crash kept the console, and removes it.
func wantConsole(t *testing.T, err error) {
	t.Helper()
	var crash *vm.Crash
	if !errors.As(err, &crash) {
		t.Errorf("error %v, want a crash", err)
		return
	}
	if err := os.Remove(crash.Console); err != nil {
		t.Errorf("the console is not kept: %v", err)
	}
}

// TestKilledParentLeavesNoMachine checks that QEMU ends with the program that started it,
// however that program ends.
func TestKilledParentLeavesNoMachine(t *testing.T) {
	program := need(t)
	runtime.LockOSThread() // vm run ends with the thread that started it
	cmd := exec.Command(program, "run", "--", "sh", "-c", "echo up; exec sleep 1000")
	cmd.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // a killed program removes no files
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("the program ended before its machine was up: %v", err)
	}
	machines := children(t, cmd.Process.Pid, "qemu")
	if len(machines) != 1 {
		t.Fatalf("the program has the machines %v, want one", machines)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for end := time.Now().Add(10 * time.Second); running(machines[0]); {
		if time.Now().After(end) {
			t.Fatalf("QEMU, process %s, outlived the program that started it", machines[0])
		}
	}
}

// children lists the process ids of the children whose names have a prefix.
func children(t *testing.T, parent int, name string) (pids []string) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(parent) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tasks {
		text, _ := os.ReadFile(file) // a thread may just have ended
		for _, pid := range strings.Fields(string(text)) {
			if comm, _ := os.ReadFile("/proc/" + pid + "/comm"); strings.HasPrefix(string(comm), name) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// running reports whether a process exists and is not a zombie.
func running(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(text), ") Z ")
}
