package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

var errNoConfig = errors.New("the datastore holds no network config")

// getConfig answers with the network config, completed as its readers would.
func (s *Server) getConfig(w http.ResponseWriter, c call) error {
	return s.list(w, c, &c.feed.config, func(snap *lease.Snapshot) ([]byte, error) { return completed(snap.Config) })
}

// networkOf parses the config of a snapshot.
func networkOf(doc lease.Document) (config.Network, error) {
	if doc.Revision == 0 {
		return config.Network{}, errNoConfig
	}
	return config.Parse(doc.Data)
}

// completed returns the document with the members that it derives filled in.
func completed(doc lease.Document) ([]byte, error) {
	network, err := networkOf(doc)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(doc.Data, &members); err != nil {
		return nil, err
	}
	fill := func(family string, r config.Range) {
		if !r.Enabled() {
			return
		}
		set(members, family+"Network", r.Network, true)
		set(members, family+"SubnetLen", r.SubnetLen, false)
		set(members, family+"SubnetMin", r.Min, false)
		set(members, family+"SubnetMax", r.Max, false)
	}
	fill("", network.V4)
	fill("IPv6", network.V6)
	return encode(members), nil
}

// set gives a member a value, if it has none or if the value is better. Names match
// in either case.
func set(members map[string]json.RawMessage, name string, value any, better bool) {
	for present, text := range members {
		if !strings.EqualFold(present, name) {
			continue
		}
		if !better && string(text) != "null" && string(text) != `""` && string(text) != "0" {
			return
		}
		delete(members, present)
	}
	members[name] = encode(value)
}
