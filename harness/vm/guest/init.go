package guest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// agentName is the name under which process 1 runs this program as the agent.
const agentName = "vm-agent"

// Main runs the guest if this process is part of one, and then never returns.
// A program that is used as a guest calls it first.
func Main() {
	switch {
	case filepath.Base(os.Args[0]) == agentName:
		if err := serve(); err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
			os.Exit(1)
		}
		os.Exit(0)
	case os.Getpid() == 1 && os.Args[0] == "/init":
		if err := boot(); err != nil {
			fmt.Fprintln(os.Stderr, "guest:", err)
		}
		unix.Sync()
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	}
}

// boot prepares the machine and runs the agent until it ends.
func boot() error {
	plan, err := readPlan()
	if err != nil {
		return err
	}
	for _, step := range []func(Plan) error{mountEarly, loadModules, mountRoot, mountKernel, mountWritable, enterRoot} {
		if err := step(plan); err != nil {
			return err
		}
	}
	// The program file is still open under this name, although its path is gone.
	agent := exec.Cmd{Path: "/proc/self/exe", Args: []string{agentName}, Env: environment(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if err := agent.Start(); err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	return reap(agent.Process.Pid)
}

// environment returns the variables of the agent. Commands bring their own.
func environment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}
}

// reap waits for every process that has lost its parent, until the agent ends.
func reap(agent int) error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for processes: %w", err)
		}
		if pid == agent && status.ExitStatus() != 0 {
			return fmt.Errorf("the agent ended with status %d", status.ExitStatus())
		}
		if pid == agent {
			return nil
		}
	}
}

// loadModules loads the early modules in the order of their names.
func loadModules(Plan) error {
	files, err := filepath.Glob("/" + ModulesDir + "/*.ko") // sorted
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := loadModule(file); err != nil {
			return fmt.Errorf("load %s: %w", file, err)
		}
	}
	return nil
}

func loadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}
