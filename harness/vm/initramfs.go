package vm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flanneld/flannel/harness/vm/guest"
)

// earlyModules are the modules that the guest loads before it has a root file
// system: the bus, the disk's protocol, the layer in memory, the serial port.
var earlyModules = []string{"virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console"}

// writeInitramfs writes the initial file system: the guest's program as /init, the
// early modules and those that are named besides, and the plan.
func writeInitramfs(to string, k Kernel, program string, p guest.Plan, more ...string) error {
	modules, err := loadOrder(k, slices.Concat(earlyModules, more))
	if err != nil {
		return err
	}
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	defer f.Close()
	a := &archive{out: bufio.NewWriter(f)}
	a.addFile("init", program)
	a.addDir(guest.ModulesDir)
	for i, module := range modules {
		a.addFile(fmt.Sprintf("%s/%02d-%s", guest.ModulesDir, i, path.Base(module)), filepath.Join(k.Modules(), module))
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	a.add(guest.PlanFile, modeFile, text)
	if err := a.close(); err != nil {
		return fmt.Errorf("write the initial file system: %w", err)
	}
	return f.Close()
}

// loadOrder returns the files of modules and of those that they need, each after
// the ones that it needs.
func loadOrder(k Kernel, names []string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(k.Modules(), "modules.dep"))
	if err != nil {
		return nil, err
	}
	needs := map[string][]string{} // files by file
	files := map[string]string{}   // by name of the module
	for line := range strings.Lines(string(text)) {
		file, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		needs[file] = strings.Fields(rest)
		files[strings.ReplaceAll(strings.TrimSuffix(path.Base(file), ".ko"), "-", "_")] = file
	}
	var order []string
	var add func(file string)
	add = func(file string) {
		for _, needed := range needs[file] {
			add(needed)
		}
		if !slices.Contains(order, file) {
			order = append(order, file)
		}
	}
	for _, name := range names {
		file, ok := files[name]
		if !ok {
			return nil, fmt.Errorf("kernel %s has no module %s", k.Release, name)
		}
		add(file)
	}
	return order, nil
}

// The modes of entries.
const (
	modeDir  = 0o040755
	modeFile = 0o100755
)

// archive writes the cpio format "newc", which the kernel unpacks.
type archive struct {
	out *bufio.Writer
	err error // the first one
}

func (a *archive) addDir(name string) { a.add(name, modeDir, nil) }

func (a *archive) addFile(name, from string) {
	text, err := os.ReadFile(from)
	if err != nil {
		a.fail(err)
		return
	}
	a.add(name, modeFile, text)
}

func (a *archive) add(name string, mode int, text []byte) {
	const links = 1
	fields := []int{0, mode, 0, 0, links, 0, len(text), 0, 0, 0, 0, len(name) + 1, 0}
	header := "070701"
	for _, f := range fields {
		header += fmt.Sprintf("%08X", f)
	}
	a.write([]byte(header + name + "\x00"))
	a.pad(len(header) + len(name) + 1)
	a.write(text)
	a.pad(len(text))
}

// pad fills up to a multiple of four bytes.
func (a *archive) pad(size int) { a.write(make([]byte, (4-size%4)%4)) }

func (a *archive) write(text []byte) {
	_, err := a.out.Write(text)
	a.fail(err)
}

func (a *archive) fail(err error) {
	if a.err == nil {
		a.err = err
	}
}

// close ends the archive. The kernel wants it to be a multiple of 512 bytes long
// only for tapes, so nothing is padded.
func (a *archive) close() error {
	a.add("TRAILER!!!", 0, nil)
	if err := a.out.Flush(); err != nil {
		return err
	}
	return a.err
}
