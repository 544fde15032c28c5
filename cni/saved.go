package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/renameio/v2"

	"github.com/flanneld/flannel/internal/files"
)

// attachment is one interface of one container in one network. Its ADD keeps
// the delegate's configuration for its DEL, which may come when the subnet file
// has changed or gone. Below dataDir there are:
//
//	.<network>/<container id>:<ifname>   a file for each attachment
//	.<network>/.gateways                 the addresses that the delegate has given to bridges
//	<container id>                       a symbolic link to that of the container's first
//
// Upstream's plugin, and this one before, keep one file a container, under the
// container's id (interop 4.2). The link lets upstream's DEL find it after a move
// back. A plain file of that name serves the attachments of its network that have
// no file of their own. The protocol allows no slash, no colon and no leading dot
// in an id, no leading dot in a network, and no slash and no colon in an ifname.
type attachment struct {
	dataDir, network, container, ifname string
}

func (c conf) attachment(args *skel.CmdArgs) attachment {
	return attachment{dataDir: c.DataDir, network: c.Name, container: args.ContainerID, ifname: args.IfName}
}

// networkDir holds the files of one network's attachments.
func networkDir(network string) string { return "." + network }

// file names the attachment's own file, below dataDir.
func (a attachment) file() string {
	return filepath.Join(networkDir(a.network), a.container+":"+a.ifname)
}

func (a attachment) path() string { return filepath.Join(a.dataDir, a.file()) }

// byContainer returns the path under which upstream's plugin looks.
func (a attachment) byContainer() string { return filepath.Join(a.dataDir, a.container) }

// keep stores the delegate's configuration.
func (a attachment) keep(text []byte) error {
	if err := os.MkdirAll(filepath.Dir(a.path()), 0o700); err != nil {
		return types.NewError(types.ErrIOFailure, "make a directory in dataDir", err.Error())
	}
	files.Sweep(filepath.Dir(a.path()), "") // no later call writes the file of a call that was killed
	if err := files.Replace(a.path(), text, 0o600); err != nil {
		return types.NewError(types.ErrIOFailure, "keep the delegate's configuration", err.Error())
	}
	_, err := os.Stat(a.byContainer())
	if !errors.Is(err, fs.ErrNotExist) {
		return nil // another attachment of the container was first
	}
	if err := renameio.Symlink(a.file(), a.byContainer()); err != nil {
		return types.NewError(types.ErrIOFailure, "link the kept configuration to the container's id", err.Error())
	}
	return nil
}

// errDamaged marks a kept file that names no plugin.
var errDamaged = errors.New("no delegate's configuration")

// kept returns the stored configuration and its path; nil if none is stored. A
// damaged file is an error that wraps errDamaged.
func (a attachment) kept() (delegated map[string]any, path string, err error) {
	delegated, err = readKept(a.path())
	if !errors.Is(err, fs.ErrNotExist) {
		return delegated, a.path(), err
	}
	if info, err := os.Lstat(a.byContainer()); err != nil || !info.Mode().IsRegular() {
		return nil, "", nil
	}
	delegated, err = readKept(a.byContainer())
	if err == nil && delegated["name"] != a.network {
		return nil, "", nil
	}
	return delegated, a.byContainer(), err
}

func readKept(path string) (map[string]any, error) {
	text, err := files.ReadRegular(path, files.MostOwn)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, types.NewError(types.ErrIOFailure, "read the container's kept configuration", err.Error())
	}
	var delegated map[string]any
	if err := json.Unmarshal(text, &delegated); err != nil || pluginOf(delegated) == "" {
		return nil, fmt.Errorf("%s is damaged: %w", path, errors.Join(err, errDamaged))
	}
	return delegated, nil
}

// forget removes the file that kept found, and the container's link to it.
func (a attachment) forget(path string) error {
	if target, err := os.Readlink(a.byContainer()); err == nil && target == a.file() {
		if err := remove(a.byContainer()); err != nil {
			return err
		}
	}
	return remove(path)
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return types.NewError(types.ErrIOFailure, "remove the container's kept configuration", err.Error())
	}
	return nil
}

// release frees what a delegate holds for an attachment.
type release func(a attachment, delegated map[string]any) error

// forgetOthers releases attachments to this network that no longer exist, and removes
// their kept files. A file stays if its attachment could not be released.
func (c conf) forgetOthers(valid []types.GCAttachment, free release) error {
	return errors.Join(c.forgetAttachments(valid, free), c.forgetContainers(valid, free))
}

func (c conf) forgetAttachments(valid []types.GCAttachment, free release) error {
	live := map[attachment]bool{}
	for _, v := range valid {
		live[attachment{c.DataDir, c.Name, v.ContainerID, v.IfName}] = true
	}
	files, err := plainFiles(filepath.Join(c.DataDir, networkDir(c.Name)))
	errs := []error{err}
	for _, name := range files {
		container, ifname, _ := strings.Cut(name, ":")
		a := attachment{c.DataDir, c.Name, container, ifname}
		if live[a] {
			continue
		}
		delegated, err := readKept(a.path())
		if err == nil {
			err = free(a, delegated)
		} else if errors.Is(err, errDamaged) || errors.Is(err, fs.ErrNotExist) {
			err = nil // nothing tells what to release, or a DEL has just done so
		}
		if err == nil {
			err = a.forget(a.path())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// usualInterface is the interface of files of the older form, whose plugin attached one
// interface a container: runtimes on Kubernetes name it so.
const usualInterface = "eth0"

// forgetContainers does the same with files of the older form: they name their network,
// and not their interface. A damaged one may be another network's and stays.
func (c conf) forgetContainers(valid []types.GCAttachment, free release) error {
	live := map[string]bool{}
	for _, v := range valid {
		live[v.ContainerID] = true
	}
	files, err := plainFiles(c.DataDir)
	errs := []error{err}
	for _, container := range files {
		path := filepath.Join(c.DataDir, container)
		delegated, err := readKept(path)
		if err != nil || delegated["name"] != c.Name || live[container] {
			continue
		}
		err = free(attachment{c.DataDir, c.Name, container, usualInterface}, delegated)
		if err == nil {
			err = remove(path)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// plainFiles lists the names of the plain files in a directory, which may be
// missing. A name with a leading dot is of a file that was not written to its end, or of the one with the gateways.
func plainFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, types.NewError(types.ErrIOFailure, "list "+dir, err.Error())
	}
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func pluginOf(delegated map[string]any) string {
	name, _ := delegated["type"].(string)
	return name
}
