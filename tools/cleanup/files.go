package cleanup

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flanneld/flannel/cni/install"
	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/internal/hostpaths"
)

// files returns flannel's files, and those next to them that stay.
func (o Options) files() (ours, kept []Item) {
	add := func(path string, test fileTest) {
		if !o.exists(path) || slices.ContainsFunc(ours, func(i Item) bool { return i.Object == path }) {
			return
		}
		item := Item{Kind: "file", Object: path, Why: test(o.at(path))}
		if item.Why == "" {
			ours = append(ours, item)
		} else {
			kept = append(kept, item)
		}
	}
	for _, path := range o.SubnetFiles {
		add(path, isSubnetFile)
		add(control.Socket(path), isSocket) // of a daemon that was killed
		add(hostpaths.CNICalls(path), isCalls)
		for _, env := range o.glob(hostpaths.Networks(path)) {
			add(env, isSubnetFile)
			add(hostpaths.CNICalls(env), isCalls)
		}
	}
	for _, path := range o.StateFiles {
		add(path, isStateFile)
		add(hostpaths.Record(path), isRecord)
		if path != "" {
			add(hostpaths.RecordLock(path), isLock)
		}
		for _, secret := range o.glob(hostpaths.Secrets(path)) {
			add(secret, isSecret)
		}
	}
	for _, path := range o.KeyFiles {
		add(path, isKeyFile)
	}
	if o.exists(hostpaths.EmbeddedDir) {
		kept = append(kept, Item{Kind: "folder", Object: hostpaths.EmbeddedDir,
			Why: "it is the datastore of --embed-etcd, with the leases of all nodes; if no node needs it, run: rm -r " +
				hostpaths.EmbeddedDir})
	}
	cni, stay := o.cniFiles()
	return append(ours, cni...), append(kept, stay...)
}

// cniFiles returns what the CNI plugin keeps and reads. Its program stays: packages of
// CNI plugins hold one of that name.
func (o Options) cniFiles() (ours, kept []Item) {
	add := func(i Item) {
		if o.KeepCNI {
			i.Why = "--keep-cni"
			kept = append(kept, i)
		} else {
			ours = append(ours, i)
		}
	}
	if folder := (Item{Kind: "folder", Object: o.CNIData}); o.exists(o.CNIData) {
		if other := otherThanState(o.at(o.CNIData)); other != "" {
			folder.Why = "it holds more than the state of the plugin, such as " + other
			kept = append(kept, folder)
		} else {
			add(folder)
		}
	}
	for _, name := range []string{install.ConfName, install.FormerConfName} {
		path := filepath.Join(o.CNIConf, name)
		text, err := o.read(path)
		switch {
		case err == nil && text == nil:
			continue
		case err != nil || !namesPlugin(text):
			kept = append(kept, Item{Kind: "file", Object: path, Why: "no plugin of it is flannel"})
		default:
			add(Item{Kind: "file", Object: path})
		}
	}
	if program := filepath.Join(o.CNIBin, install.PluginName); o.exists(program) {
		kept = append(kept, Item{Kind: "file", Object: program,
			Why: "a package of CNI plugins may own it; otherwise run: rm " + program})
	}
	return ours, kept
}

// namesPlugin reports whether a CNI configuration names the plugin flannel, alone or
// in a list.
func namesPlugin(text []byte) bool {
	type plugin struct{ Type string }
	var conf struct {
		plugin
		Plugins []plugin
	}
	if json.Unmarshal(text, &conf) != nil {
		return false
	}
	return slices.Contains(append(conf.Plugins, conf.plugin), plugin{install.PluginName})
}

func (o Options) exists(path string) bool {
	_, err := os.Lstat(o.at(path))
	return path != "" && err == nil
}

// glob returns the paths, without the root, that a pattern matches.
func (o Options) glob(pattern string) []string {
	matches, _ := filepath.Glob(o.at(pattern)) // the pattern is well formed
	for i, m := range matches {
		matches[i] = "/" + strings.TrimPrefix(strings.TrimPrefix(m, o.at("/")), "/")
	}
	return matches
}

// removeFiles removes flannel's files, and the folders that are empty then.
func (o Options) removeFiles(result *Result) {
	files, _ := o.files()
	for _, item := range files {
		remove := os.Remove
		if item.Kind == "folder" {
			remove = os.RemoveAll
		}
		err := remove(o.at(item.Object))
		if err != nil {
			item.Error = err.Error()
		}
		result.put(item)
	}
	paths := slices.Concat(o.SubnetFiles, o.StateFiles, o.KeyFiles)
	for _, path := range o.SubnetFiles {
		paths = append(paths, hostpaths.Networks(path))
	}
	slices.SortFunc(paths, func(a, b string) int { return len(b) - len(a) }) // a folder comes before the one that holds it
	for _, path := range paths {
		for dir := filepath.Dir(path); belowFlannel(dir); dir = filepath.Dir(dir) {
			err := os.Remove(o.at(dir))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				break // it holds something else
			}
			if err == nil {
				result.put(Item{Kind: "folder", Object: dir})
			}
		}
	}
}

// belowFlannel reports whether a folder, or one that holds it, is called flannel.
func belowFlannel(dir string) bool {
	return slices.Contains(strings.Split(dir, string(filepath.Separator)), "flannel")
}
