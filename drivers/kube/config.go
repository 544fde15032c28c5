package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
	"github.com/flanneld/flannel/internal/files"
	"github.com/flanneld/flannel/internal/pause"
)

// readConfig reads the network config. An error names the file, and the place
// in it where the JSON breaks off.
func readConfig(path string) ([]byte, config.Network, error) {
	data, err := files.ReadRegular(path, files.MostOwn)
	if err != nil {
		return nil, config.Network{}, err
	}
	network, err := config.ParseAssigned(data)
	if err != nil {
		return nil, config.Network{}, fmt.Errorf("%s%s: %w", path, position(data), err)
	}
	return data, network, nil
}

// position returns ":LINE:COLUMN" of the first syntax error in a JSON text;
// "" if there is none.
func position(data []byte) string {
	var syntax *json.SyntaxError
	if !errors.As(json.Unmarshal(data, new(json.RawMessage)), &syntax) {
		return ""
	}
	before := data[:min(max(syntax.Offset-1, 0), int64(len(data)))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Sprintf(":%d:%d", line, column)
}

// followConfig reads the config file at intervals: it is a ConfigMap, which
// kubelet replaces about a minute after it has changed. A config that cannot be
// used leaves the present one in force, and is logged once. So does a config whose network does not contain this node's
// own subnet where the present one does: a wrong digit would remove all routes of all nodes within a minute.
func (s *Store) followConfig() {
	refused := ""
	for pause.For(s.ctx, s.o.configEvery) {
		data, network, err := readConfig(s.o.ConfigFile)
		if err == nil {
			err = s.leavesOut(network)
		}
		switch {
		case err == nil:
			refused = ""
			s.setConfig(data, network)
		case err.Error() != refused:
			refused = err.Error()
			s.o.Log.Warn("--net-config-path: the new network config is not used; the former one stays in force", "err", err)
		}
	}
}

// leavesOut returns an error if a network does not contain this node's own subnet and the present one does.
func (s *Store) leavesOut(network config.Network) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.table == nil {
		return nil
	}
	return s.table.LeavesOut(network)
}

// errOtherConfig ends an attempt for which the config has changed too much.
var errOtherConfig = errors.New("the network config has changed")

// setConfig puts a config in force, if it is another one.
func (s *Store) setConfig(data []byte, network config.Network) {
	s.update(func() bool {
		if bytes.Equal(data, s.doc.Data) {
			return false
		}
		if ignoresPeers(network) != ignoresPeers(s.network) && s.again != nil {
			s.again(errOtherConfig) // whether other nodes matter has changed
		}
		s.doc, s.network = lease.Document{Data: data, Revision: s.doc.Revision + 1}, network
		if s.table != nil {
			s.table.SetConfig(s.doc, network)
		}
		return true
	})
}

// alone reports whether other nodes do not matter.
func (s *Store) alone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ignoresPeers(s.network)
}

// ignoresPeers reports whether a network's backend needs no other nodes (interop 5.1: alloc).
func ignoresPeers(network config.Network) bool {
	spec, known := all.Find(network.Backend.Type)
	return known && spec.CarriesNothing
}
