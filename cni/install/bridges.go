package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"

	"github.com/flanneld/flannel/internal/files"
)

// PodBridges returns the names of the bridges to which flannel's CNI plugin connects pods, by the configurations in the
// node's folder and the list to install. A container may see only one of the two. Bridges of plugins beside flannel do
// not count: they may lead to other hosts. Files that cannot be read name none.
func (f Files) PodBridges() []string {
	paths := []string{f.Conf}
	if f.ConfDir == "" {
		f.ConfDir = os.DevNull // which has no files
	}
	for _, pattern := range []string{"*.conf", "*.conflist", "*.json"} {
		more, _ := filepath.Glob(filepath.Join(f.ConfDir, pattern)) // the pattern is well formed, or there is no such folder
		paths = append(paths, more...)
	}
	var names []string
	for _, path := range paths {
		text, err := files.ReadRegular(path, mostConf)
		if err == nil {
			names = append(names, bridgesIn(text)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// mostConf is the size of the largest file that is read as a CNI configuration, in bytes.
const mostConf = 1 << 20

// bridgesIn returns the bridges that a CNI configuration, or a list of them, names for pods of flannel.
func bridgesIn(text []byte) []string {
	type plugin struct {
		Type     string
		Delegate struct{ Type, Bridge string }
	}
	var conf struct {
		plugin
		Plugins []plugin
	}
	if json.Unmarshal(text, &conf) != nil {
		return nil
	}
	var names []string
	for _, p := range append(conf.Plugins, conf.plugin) {
		bridges := p.Delegate.Type == "" || p.Delegate.Type == "bridge"
		if p.Type == PluginName && bridges && p.Delegate.Bridge != "" {
			names = append(names, p.Delegate.Bridge)
		}
	}
	return names
}
