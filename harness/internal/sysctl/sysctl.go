// Package sysctl reads the kernel settings below /proc/sys, so that tests can tell whether the host's have changed.
package sysctl

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const root = "/proc/sys"

// moving are values that the kernel changes by itself: counts, random numbers, lists of loaded modules, and a limit
// that it lowers on a busy machine. A name that ends in a slash stands for a folder.
var moving = []string{
	"fs/aio-nr", "fs/binfmt_misc/", "fs/dentry-state", "fs/file-nr", "fs/inode-nr", "fs/inode-state", "fs/quota/",
	"kernel/cad_pid", "kernel/ns_last_pid", "kernel/perf_event_max_sample_rate", "kernel/pty/nr", "kernel/random/",
	"kernel/tainted", "net/ipv4/tcp_available_congestion_control", "net/ipv4/tcp_available_ulp",
	"net/netfilter/nf_conntrack_count", "vm/stat_refresh",
}

// Read returns all settings that this process can read, by their paths below /proc/sys. Those of the network are of the
// namespace of the calling thread.
func Read() (map[string]string, error) {
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if path == root {
			return err
		}
		if err != nil { // a device has gone
			return nil
		}
		name := strings.TrimPrefix(path, root+"/")
		if entry.IsDir() {
			if slices.Contains(moving, name+"/") {
				return fs.SkipDir
			}
			return nil
		}
		info, err := entry.Info()
		if err != nil || info.Mode().Perm()&0o444 == 0 || slices.Contains(moving, name) {
			return nil
		}
		if text, err := os.ReadFile(path); err == nil { // some can be read only once they are set
			all[name] = strings.TrimSpace(string(text))
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the kernel's settings: %w", err)
	}
	return all, nil
}

// Changes returns a line for each setting that has another value, or is gone. New ones come with modules and devices.
func Changes(before, after map[string]string) []string {
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		is, there := after[name]
		switch {
		case !there:
			changes = append(changes, fmt.Sprintf("%s is gone; it was %q", name, before[name]))
		case is != before[name]:
			changes = append(changes, fmt.Sprintf("%s is %q; it was %q", name, is, before[name]))
		}
	}
	return changes
}
