package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/renameio/v2"
)

// keep stores the delegate's configuration of a container, for its DEL.
func (c conf) keep(container string, text []byte) error {
	if err := os.MkdirAll(c.DataDir, 0o700); err != nil {
		return types.NewError(types.ErrIOFailure, "make the directory dataDir", err.Error())
	}
	if err := renameio.WriteFile(c.file(container), text, 0o600); err != nil {
		return types.NewError(types.ErrIOFailure, "keep the delegate's configuration", err.Error())
	}
	return nil
}

// kept is what keep stored; nil if there is nothing.
func (c conf) kept(container string) (map[string]any, error) {
	text, err := os.ReadFile(c.file(container))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, types.NewError(types.ErrIOFailure, "read what was kept of the container", err.Error())
	}
	var delegated map[string]any
	if err := json.Unmarshal(text, &delegated); err != nil || pluginOf(delegated) == "" {
		return nil, fmt.Errorf("%s is damaged: %w", c.file(container), errors.Join(err, errDamaged))
	}
	return delegated, nil
}

// errDamaged is what a kept file is that names no plugin.
var errDamaged = errors.New("no delegate's configuration")

// forget removes what was kept.
func (c conf) forget(container string) error {
	if err := os.Remove(c.file(container)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return types.NewError(types.ErrIOFailure, "remove what was kept of the container", err.Error())
	}
	return nil
}

// forgetOthers removes what was kept of containers that are gone.
func (c conf) forgetOthers(valid []types.GCAttachment) error {
	entries, err := os.ReadDir(c.DataDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return types.NewError(types.ErrIOFailure, "list dataDir", err.Error())
	}
	live := map[string]bool{}
	for _, a := range valid {
		live[a.ContainerID] = true
	}
	var errs []error
	for _, e := range entries {
		if e.Type().IsRegular() && !live[e.Name()] {
			errs = append(errs, c.forget(e.Name()))
		}
	}
	return errors.Join(errs...)
}

// file is where a container's is kept. The protocol allows no slash and no
// leading dot in a container's id.
func (c conf) file(container string) string { return filepath.Join(c.DataDir, container) }

func pluginOf(delegated map[string]any) string {
	name, _ := delegated["type"].(string)
	return name
}
