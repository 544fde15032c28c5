// Package install installs the CNI plugin and its configuration on a node,
// so that an image needs no shell for that. It runs the node's CNI plugins to ask for the
// versions that they support, and asks no API server.
package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/utils"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/flanneld/flannel/cni"
	"github.com/flanneld/flannel/internal/files"
)

// The names that the files get (interop 4.3).
const (
	PluginName = "flannel"
	ConfName   = "10-flannel.conflist"

	// FormerConfName is the name in upstream's older manifests.
	FormerConfName = "10-flannel.conf"
)

// Files names the files to install and their places.
type Files struct {
	Plugin  string // the plugin's executable
	BinDir  string // becomes BinDir/flannel
	Conf    string // the network configuration list; empty leaves the node's to another program
	ConfDir string // becomes ConfDir/10-flannel.conflist

	// Ask returns the CNI versions that a plugin supports, such as [AskPlugin]. With it the
	// configuration offers the runtime all versions that its plugins share. Nil: the
	// configuration stays as it is.
	Ask func(ctx context.Context, plugin string) ([]string, error)
}

// Install replaces each file atomically, unless it is already as desired. The
// configuration comes last: it makes the runtime use the plugin. Install
// returns the paths of the files it has written, and a note for the operator or "".
func (f Files) Install(ctx context.Context) (written []string, note string, err error) {
	files, note, err := f.read(ctx)
	if err != nil {
		return nil, "", err
	}
	for _, file := range files {
		changed, err := put(file.path, file.data, file.mode)
		if err != nil {
			return written, note, fmt.Errorf("install %s: %w", file.path, err)
		}
		if changed {
			written = append(written, file.path)
		}
	}
	return written, note, nil
}

// file is the desired content and mode of a path.
type file struct {
	path string
	data []byte
	mode fs.FileMode
}

// read returns the files in the order of their installation, and a note or "".
func (f Files) read(ctx context.Context) (files []file, note string, err error) {
	plugin, err := os.ReadFile(f.Plugin)
	if err != nil {
		return nil, "", fmt.Errorf("read the CNI plugin: %w", err)
	}
	files = []file{{filepath.Join(f.BinDir, PluginName), plugin, 0o755}}
	if f.Conf == "" {
		return files, "", nil
	}
	conf, err := os.ReadFile(f.Conf)
	if err != nil {
		return nil, "", fmt.Errorf("read the CNI configuration: %w", err)
	}
	if err := checkConf(conf); err != nil {
		return nil, "", fmt.Errorf("CNI configuration %s: %w", f.Conf, err)
	}
	if f.Ask != nil {
		conf, note = f.offer(ctx, conf)
	}
	return append(files, file{filepath.Join(f.ConfDir, ConfName), conf, 0o644}), note, nil
}

// checkConf refuses a configuration that would leave a node without a network:
// a runtime skips a broken file, or stops.
func checkConf(text []byte) error {
	var list struct {
		Name       string
		CNIVersion string
		Plugins    []json.RawMessage
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	if list.Name == "" || len(list.Plugins) == 0 {
		return errors.New("it needs a name and at least one plugin: see the CNI specification, section 1")
	}
	if err := utils.ValidateNetworkName(list.Name); err != nil {
		return fmt.Errorf("the name %q: %s", list.Name, err.Msg)
	}
	if v := list.CNIVersion; v != "" && !slices.Contains(version.All.SupportedVersions(), v) {
		return fmt.Errorf("cniVersion %s: want one of %s", v, strings.Join(version.All.SupportedVersions(), ", "))
	}
	for i, text := range list.Plugins {
		var plugin struct{ Type string }
		if err := json.Unmarshal(text, &plugin); err != nil {
			return fmt.Errorf("plugin %d of the list: %w", i+1, err)
		}
		if plugin.Type == "" {
			return fmt.Errorf("plugin %d of the list has no type", i+1)
		}
		if plugin.Type == PluginName {
			if err := cni.Check(text); err != nil {
				return fmt.Errorf("plugin %d of the list: %w", i+1, err)
			}
		}
	}
	return nil
}

// put writes a file unless it is already as desired.
func put(path string, data []byte, mode fs.FileMode) (changed bool, err error) {
	have, err := os.ReadFile(path)
	if err == nil && bytes.Equal(have, data) {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm() == mode {
			return false, nil
		}
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, err
	}
	return true, files.Replace(path, data, mode)
}
