package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/flanneld/flannel/harness/vm"
	"github.com/flanneld/flannel/harness/vm/guest"
	"github.com/flanneld/flannel/harness/vm/wire"
)

func main() {
	guest.Main()
	status, err := perform(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		status = max(1, status)
	}
	os.Exit(status)
}

func perform(args []string) (int, error) {
	if len(args) == 0 {
		return 2, errors.New("want run, exec or kernel")
	}
	switch args[0] {
	case "run":
		return run(args[1:])
	case "exec":
		return execute(args[1:])
	case "kernel":
		return 0, kernel()
	case vm.MeasureArg:
		return 0, measure()
	case vm.IdleArg:
		return 0, nil
	default:
		return 2, fmt.Errorf("%s: want run, exec or kernel", args[0])
	}
}

// execute runs a program in the machine of the vm run above this process.
func execute(args []string) (int, error) {
	socket := os.Getenv(vm.SocketEnv)
	if socket == "" {
		return 1, errors.New("exec: there is no machine; run this inside the COMMAND of vm run -- COMMAND")
	}
	dir, err := os.Getwd()
	if err != nil {
		return 1, err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	return vm.Ask(socket, wire.Command{Args: args, Dir: dir, Env: os.Environ()}, signals, os.Stdout, os.Stderr)
}

// kernel downloads a kernel unless there is one, and names it.
func kernel() error {
	if err := vm.Check(); err != nil {
		return err
	}
	k, err := vm.Fetch(context.Background())
	if err != nil {
		return err
	}
	fmt.Printf("VM: stock Debian kernel %s, emulated\n", k.Release)
	return nil
}

func measure() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	sample, err := vm.Measure(self)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(sample)
}
