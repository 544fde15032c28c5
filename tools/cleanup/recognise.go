package cleanup

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/internal/cnicalls"
	"github.com/flanneld/flannel/internal/hostpaths"
)

// A fileTest returns the reason why a file at a place of flannel's is not flannel's, "" if
// it is. Flags name these places, and a wrong flag must not remove another file.
type fileTest func(path string) string

// maxFile is more than the size of any file that flannel writes.
const maxFile = 64 << 20

// regular returns the content of a regular file, or the reason why the file is not regular.
func regular(path string) (data []byte, why string) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return nil, err.Error()
	case info.Mode().Type() == fs.ModeSymlink:
		return nil, "it is a symbolic link, which flannel does not make"
	case !info.Mode().IsRegular() || info.Size() > maxFile:
		return nil, "flannel writes no such file"
	}
	data, err = os.ReadFile(path)
	if err != nil {
		return nil, err.Error()
	}
	return data, ""
}

// holds returns a test of a regular file's content.
func holds(what string, test func(data []byte) bool) fileTest {
	return func(path string) string {
		data, why := regular(path)
		if why == "" && !test(data) {
			why = "its content is not that of " + what
		}
		return why
	}
}

var (
	isSubnetFile = holds("a subnet file", func(data []byte) bool {
		for line := range bytes.Lines(data) {
			if !bytes.HasPrefix(line, []byte("FLANNEL_")) {
				return false
			}
		}
		return len(data) > 0
	})
	isStateFile = holds("a state file", func(data []byte) bool {
		_, err := node.SavedMarks(data)
		return err == nil
	})
	isRecord = holds("a record of commands", func(data []byte) bool { return bytes.HasPrefix(data, []byte("boot ")) })
	isLock   = func(path string) string {
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || info.Size() > 0 {
			return "it is not the empty file that a daemon locks"
		}
		return ""
	}
	isCalls = holds("calls of the CNI plugin", func(data []byte) bool {
		_, err := cnicalls.Parse(data)
		return err == nil
	})
	isSecret = holds("a secret", func(data []byte) bool {
		_, err := dataplane.SecretOf(data)
		return err == nil
	})
	isKeyFile = holds("a WireGuard key", func(data []byte) bool {
		_, err := dataplane.ParseSecret(strings.TrimSpace(string(data)))
		return err == nil
	})
)

// isSocket is the test of a control socket.
func isSocket(path string) string {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err.Error()
	case info.Mode().Type() != fs.ModeSocket:
		return "it is not a socket"
	}
	return ""
}

// otherThanState returns the name of something below a folder that is no state of the
// CNI plugin, "" if there is none. The state is a configuration of another plugin for
// each container, in the folder itself or below one with a leading dot, and symbolic links.
func otherThanState(dir string) (other string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path) // it is below the folder
		depth := strings.Count(name, string(filepath.Separator))
		switch {
		case err != nil:
			other = err.Error()
		case path == dir && d.IsDir():
			return nil
		case d.IsDir() && depth == 0 && name[0] == '.':
			return nil
		case d.Type() == fs.ModeSymlink && path != dir:
			return nil
		case depth == 1 && d.Name() == hostpaths.CNIGateways && holds("", isGateways)(path) == "":
			return nil
		case d.IsDir() || holds("", isDelegate)(path) != "":
			other = name
		default:
			return nil
		}
		return fs.SkipAll
	})
	if err != nil {
		other = err.Error()
	}
	return other
}

// isGateways reports whether a file has the addresses that the plugin has had given to bridges.
func isGateways(data []byte) bool {
	var made map[string][]netip.Prefix
	return json.Unmarshal(data, &made) == nil && len(made) > 0
}

// isDelegate reports whether a file is the configuration that the plugin handed to
// another one.
func isDelegate(data []byte) bool {
	var conf struct{ Type string }
	return json.Unmarshal(data, &conf) == nil && conf.Type != ""
}
