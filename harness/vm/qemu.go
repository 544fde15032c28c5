package vm

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/flanneld/flannel/harness/vm/guest"
)

// process is a running QEMU.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed after its end
}

// kill ends the process and waits for that.
func (p *process) kill() error {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill QEMU: %w", err)
	}
	<-p.done
	return nil
}

// startQEMU starts QEMU with its console in a file and the guest's serial port on a
// socket.
func startQEMU(o Options, initramfs, console string, port *os.File) (*process, error) {
	path, err := program(qemu)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(console)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, arguments(o, initramfs)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{port} // descriptor 3
	for _, n := range o.Networks {
		cmd.ExtraFiles = append(cmd.ExtraFiles, n.Tap)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go p.live(started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start QEMU: %w", err)
	}
	return p, nil
}

// live starts the process and waits for its end. The kernel kills the process
// when the thread that started it ends, so live keeps the thread.
func (p *process) live(started chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		_ = p.cmd.Wait() // the console says more
		close(p.done)
	}
}

// bootLine returns the kernel's command line. The machine ends at a panic or an oops
// instead of waiting for an operator. Its clock runs as fast as the host's, and it does
// not take a late timer, as on a busy host, for a broken one. The console shows the
// kernel's warnings with their stacks.
//
// The last two options save work of the emulator. QEMU translates a program's code anew at
// each address, so programs always get the same addresses. Timers end at the kernel's ticks,
// each 4 ms long: without that, programs set thousands of timers a second, and each wakes
// QEMU's main thread twice.
func bootLine() string {
	return "console=ttyS0 loglevel=5 panic=-1 oops=panic mitigations=off no_timer_check" +
		fmt.Sprintf(" tsc=reliable tsc_early_khz=%d", tscKHz()) +
		" norandmaps highres=off"
}

// arguments returns QEMU's command line. The processor has no AVX, which is slow to emulate
// and which Go and the kernel would use. The serial device has room for one port beside port 0,
// which QEMU reserves: QEMU's main thread watches two descriptors for each of 31 by default,
// whenever it wakes.
func arguments(o Options, initramfs string) []string {
	args := []string{
		"-machine", "pc", "-accel", "tcg,thread=multi", "-cpu", "Nehalem",
		"-smp", strconv.Itoa(cmp.Or(o.CPUs, 1)), "-m", strconv.Itoa(cmp.Or(o.Memory, 2048)),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-kernel", o.Kernel.image(), "-initrd", initramfs, "-append", bootLine(),
		"-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console",
		"-device", "virtio-serial-pci,max_ports=2", "-chardev", "socket,id=commands,fd=3",
		"-device", "virtserialport,chardev=commands,name=" + guest.PortName,
	}
	args = append(args, disk(guest.RootTag, "/", "readonly=on")...)
	for i, dir := range o.Writable {
		args = append(args, disk(guest.WritableTag(i), dir, "readonly=off")...)
	}
	for i, n := range o.Networks {
		args = append(args, "-netdev", fmt.Sprintf("tap,id=net%d,fd=%d", i, 4+i),
			"-device", fmt.Sprintf("virtio-net-pci,netdev=net%d,mac=%s,romfile=", i, n.MAC))
	}
	return args
}

// disk shows a folder of the host to the guest. Its files keep their owners' numbers,
// and new ones belong to the user who runs QEMU.
func disk(tag, dir, access string) []string {
	return []string{
		"-fsdev", fmt.Sprintf("local,id=%s,path=%s,security_model=none,multidevs=remap,%s", tag, dir, access),
		"-device", fmt.Sprintf("virtio-9p-pci,fsdev=%s,mount_tag=%s", tag, tag),
	}
}

// socketPair returns two ends of a connection: ours, and one for QEMU.
func socketPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket for the guest's serial port: %w", err)
	}
	// With Go's poller on our end, Close ends a waiting read.
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "guest"), os.NewFile(uintptr(fds[1]), "guest"), nil
}
