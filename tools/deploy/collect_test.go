package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const collect = "../../deploy/collect"

// The files of nft that the image gets are enough to run it.
func TestCollectedProgramRunsAlone(t *testing.T) {
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Skip("no nft here: apt-get install nftables")
	}
	nft, err = filepath.EvalSymlinks(nft)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command(collect, nft, dir).CombinedOutput(); err != nil {
		t.Fatalf("collect: %v: %s", err, out)
	}
	var out bytes.Buffer
	alone := exec.Cmd{Path: nft, Args: []string{"nft", "--version"}, Env: []string{}, Dir: "/", Stdout: &out, Stderr: &out,
		SysProcAttr: &syscall.SysProcAttr{Chroot: dir}}
	if os.Getuid() != 0 { // only root of some namespace may change its root
		alone.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		alone.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		alone.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := alone.Run(); err != nil || !strings.HasPrefix(out.String(), "nftables v") {
		t.Errorf("nft --version: %v: %s", err, &out)
	}
}

func TestCollectWantsAProgram(t *testing.T) {
	out, err := exec.Command(collect, "/no/such/program", t.TempDir()).CombinedOutput()
	if want := "collect: /no/such/program is not there\n"; err == nil || string(out) != want {
		t.Errorf("%v, %q, want %q", err, out, want)
	}
}
