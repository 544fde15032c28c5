package lang

import (
	"encoding/json"
	"fmt"

	"github.com/cockroachdb/datadriven"

	"github.com/flanneld/flannel/core/backend/all"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
)

// badConfig is a lasting fault: the datastore holds a network config that no node
// can use.
const badConfig = "bad config"

// storeConfig performs "store config", with the network config as input. The heal
// replaces a config that no node can use with the former one.
func storeConfig(s *Session, st Store, a *args, input string) error {
	if err := a.done(); err != nil {
		return err
	}
	if err := st.Put("config", input); err != nil {
		return err
	}
	delete(s.undo, badConfig)
	if usable(input) != nil {
		s.undo[badConfig] = s.putConfigRight
		return nil // the nodes keep the former one
	}
	s.setConfig(input)
	return nil
}

// putConfigRight writes the config in force to the datastore.
func (s *Session) putConfigRight() error { return s.world.Store().Put("config", s.config) }

// usable returns why nodes cannot use a network config, or nil.
func usable(text string) error {
	network, err := config.Parse([]byte(text))
	if err != nil {
		return err
	}
	_, err = all.New(network)
	return err
}

// storeFirewall performs "store firewall iptables|nftables": it writes the config
// in force with another tool for the rules.
func storeFirewall(s *Session, st Store, a *args, _ string) error {
	flavour := a.word("iptables or nftables")
	if err := a.done(); err != nil {
		return err
	}
	if flavour != string(dataplane.IPTables) && flavour != string(dataplane.NFTables) {
		return fmt.Errorf("store firewall %s: want iptables or nftables", flavour)
	}
	return s.mergeConfig(st, map[string]any{"EnableNFTables": flavour == string(dataplane.NFTables)})
}

// storeMerge performs "store merge": it merges its input, a JSON object, into the
// network config in force, as RFC 7396 describes: it removes members that are null,
// and merges members that are objects.
func storeMerge(s *Session, st Store, a *args, input string) error {
	if err := a.done(); err != nil {
		return err
	}
	changes := map[string]any{}
	if err := json.Unmarshal([]byte(input), &changes); err != nil {
		return fmt.Errorf("store merge: %w", err)
	}
	return s.mergeConfig(st, changes)
}

// storeEndChange performs "store end-change": it ends a change of the backend as "flannelctl change --end" does.
func storeEndChange(s *Session, st Store, a *args, _ string) error {
	if err := a.done(); err != nil {
		return err
	}
	return s.mergeConfig(st, map[string]any{"Formerly": []any{}})
}

func (s *Session) mergeConfig(st Store, changes map[string]any) error {
	members := map[string]any{}
	if err := json.Unmarshal([]byte(s.config), &members); err != nil {
		return fmt.Errorf("the config in force: %w", err)
	}
	text, err := json.Marshal(merge(members, changes))
	if err != nil {
		return fmt.Errorf("the config in force: %w", err)
	}
	return storeConfig(s, st, newArgs(&datadriven.TestData{}), string(text))
}

// merge returns an object with changes merged into it.
func merge(object, changes map[string]any) map[string]any {
	for name, value := range changes {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(object, name)
		case isObject:
			before, _ := object[name].(map[string]any)
			if before == nil {
				before = map[string]any{}
			}
			object[name] = merge(before, inner)
		default:
			object[name] = value
		}
	}
	return object
}
