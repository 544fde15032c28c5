package install

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/version"
)

// askTime bounds the time that a plugin may take to answer.
const askTime = 5 * time.Second

// AskPlugin returns the versions of the CNI specification that a plugin supports, from its answer
// to the command VERSION.
func AskPlugin(ctx context.Context, path string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	info, err := invoke.GetVersionInfo(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	return info.SupportedVersions(), nil
}

// offer adds to a network configuration list the member cniVersions: its own cniVersion, and each
// later one that all of its plugins support. A container runtime that knows this member
// takes the latest version that it supports itself; an older one reads only cniVersion
// (docs/adr 0026). The note says why the latest version is not on offer, or is "".
// A list that has the member already, or no cniVersion, stays as it is.
func (f Files) offer(ctx context.Context, conf []byte) (offered []byte, note string) {
	var list map[string]json.RawMessage
	var own string
	if json.Unmarshal(conf, &list) != nil ||
		list["cniVersions"] != nil ||
		json.Unmarshal(list["cniVersion"], &own) != nil {
		return conf, ""
	}
	common := later(own, version.All.SupportedVersions())
	for _, name := range pluginsOf(conf) {
		supported, err := f.ask(ctx, name)
		if err != nil {
			return conf, fmt.Sprintf("the configuration offers CNI %s alone: plugin %s does not tell its versions: %v",
				own, name, err)
		}
		if !slices.Contains(supported, version.Current()) && note == "" {
			note = fmt.Sprintf("the configuration does not offer CNI %s: plugin %s does not support it", version.Current(), name)
		}
		common = slices.DeleteFunc(common, func(v string) bool { return !slices.Contains(supported, v) })
	}
	if len(common) == 0 {
		return conf, note
	}
	text, err := json.Marshal(append([]string{own}, common...))
	if err != nil {
		return conf, err.Error()
	}
	list["cniVersions"] = text
	text, err = json.MarshalIndent(list, "", "  ")
	if err != nil {
		return conf, err.Error()
	}
	return append(text, '\n'), note
}

// ask returns the versions that a plugin of a list supports.
func (f Files) ask(ctx context.Context, name string) ([]string, error) {
	if name == PluginName {
		return f.Ask(ctx, f.Plugin) // it is not in its place yet
	}
	return f.Ask(ctx, filepath.Join(f.BinDir, filepath.Base(name)))
}

// later returns the versions after one.
func later(than string, versions []string) []string {
	var found []string
	for _, v := range versions {
		if after, err := version.GreaterThan(v, than); err == nil && after {
			found = append(found, v)
		}
	}
	return found
}

// pluginsOf returns the names of the plugins that run for a list: those of the list, their IPAM
// plugins, and the delegate of flannel.
func pluginsOf(conf []byte) []string {
	type plugin struct {
		Type     string
		IPAM     struct{ Type string }
		Delegate struct{ Type string }
	}
	var list struct{ Plugins []plugin }
	_ = json.Unmarshal(conf, &list) // checkConf has read it
	var names []string
	for _, p := range list.Plugins {
		if p.Type == PluginName {
			p.Delegate.Type = cmp.Or(p.Delegate.Type, "bridge")
			p.IPAM.Type = cmp.Or(p.IPAM.Type, "host-local")
		}
		for _, name := range []string{p.Type, p.Delegate.Type, p.IPAM.Type} {
			if name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
