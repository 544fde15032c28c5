package charon

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/strongswan/govici/vici"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// ikeProposal is the contract's proposal for IKE (interop 6.6).
const ikeProposal = "aes256-sha256-modp4096"

// silence is how long charon waits for a packet from a peer before it asks whether the peer
// still has the tunnel. If the peer does not answer for three minutes, charon negotiates
// another tunnel. Without this check, two hosts that each have a tunnel which the other
// does not know would stay cut off until the keys are renewed.
const silence = "60s"

// observe adds charon's keys and connections to the state.
func (d *Driver) observe(state *dataplane.State) error {
	if err := d.observeKeys(state); err != nil {
		return err
	}
	conns, err := d.session.StreamedCommandRequest("list-conns", "list-conn", nil)
	if err != nil {
		return fmt.Errorf("list-conns: %w", err)
	}
	for _, m := range conns {
		for _, name := range m.Keys() {
			k, ours := dataplane.ParseConnName(name)
			if section, ok := m.Get(name).(*vici.Message); ours && ok {
				state.Put(d.loadedAs(k, section))
			}
		}
	}
	return d.observeTunnels(state)
}

// keyPrefix begins the names of our keys in charon.
const keyPrefix = "flannel "

func (d *Driver) observeKeys(state *dataplane.State) error {
	m, err := d.session.CommandRequest("get-shared", nil)
	if err != nil {
		return fmt.Errorf("get-shared: %w", err)
	}
	names, _ := m.Get("keys").([]string)
	d.shared = make(map[dataplane.SharedKeyKey]dataplane.SharedKey, len(names))
	for _, name := range names {
		rest, ours := strings.CutPrefix(name, keyPrefix)
		owner, secret, _ := strings.Cut(rest, " ")
		addr, err := netip.ParseAddr(owner)
		if ours && err == nil {
			k := dataplane.SharedKey{
				SharedKeyKey: dataplane.SharedKeyKey{Owner: addr}, Secret: dataplane.SecretName(secret),
			}
			state.Put(k)
			d.shared[k.SharedKeyKey] = k
		}
	}
	return nil
}

func keyName(k dataplane.SharedKey) string {
	return keyPrefix + k.Owner.String() + " " + string(k.Secret)
}

// loadedAs returns a connection that charon lists: the loaded one, if it still looks
// like that.
func (d *Driver) loadedAs(k dataplane.ConnKey, section *vici.Message) dataplane.Conn {
	loaded, known := d.conns[k]
	if !known {
		return dataplane.Conn{ConnKey: k, Other: "unknown"}
	}
	children, _ := section.Get("children").(*vici.Message)
	if children == nil {
		return dataplane.Conn{ConnKey: k, Other: "children"}
	}
	child, _ := children.Get(k.Child()).(*vici.Message)
	switch {
	case !isList(section, "local_addrs", k.Local.String()), !isList(section, "remote_addrs", k.Remote.String()):
		loaded.Other = "addresses"
	case child == nil || len(children.Keys()) != 1:
		loaded.Other = "children"
	case !isList(child, "local-ts", k.LocalNet.String()), !isList(child, "remote-ts", k.RemoteNet.String()):
		loaded.Other = "subnets"
	case child.Get("mode") != "TUNNEL":
		loaded.Other = "mode"
	}
	return loaded
}

func isList(m *vici.Message, key string, want string) bool {
	list, _ := m.Get(key).([]string)
	return slices.Equal(list, []string{want})
}

// applyLoaded performs an op on a key, a connection or a tunnel.
func (d *Driver) applyLoaded(op dataplane.Op) error {
	gone := op.Verb == dataplane.Delete
	switch o := op.Object.(type) {
	case dataplane.SharedKey:
		if gone {
			return d.unloadKey(o)
		}
		return d.loadKey(o)
	case dataplane.FormerKey:
		if gone {
			return d.dropFormer(o)
		}
	case dataplane.Conn:
		if gone {
			return d.unloadConn(o.ConnKey)
		}
		return d.loadConn(o)
	case dataplane.Tunnel:
		if gone {
			return d.terminate(tunnelsOf(o.ConnKey))
		}
		return d.initiate(o.ConnKey)
	}
	return fmt.Errorf("unknown kind of object: %w", driver.ErrUnsupported)
}

// loadKey loads a key, then unloads former ones of its owner.
func (d *Driver) loadKey(k dataplane.SharedKey) error {
	if k.Secret == "" || k.Secret != d.passphrase.Name() {
		return fmt.Errorf("the config has no secret of that name: %w", driver.ErrInvalid)
	}
	err := d.command("load-shared", map[string]any{
		"id": keyName(k), "type": "IKE", "data": d.passphrase.Reveal(), "owners": []string{k.Owner.String()},
	})
	if err != nil {
		return err
	}
	old, replaced := d.shared[k.SharedKeyKey]
	d.shared[k.SharedKeyKey] = k
	if replaced && old != k {
		return d.command("unload-shared", map[string]any{"id": keyName(old)})
	}
	return nil
}

// unloadKey takes a key from charon.
func (d *Driver) unloadKey(k dataplane.SharedKey) error {
	if d.shared[k.SharedKeyKey] == k {
		delete(d.shared, k.SharedKeyKey)
	}
	return d.command("unload-shared", map[string]any{"id": keyName(k)})
}

// loadConn loads a connection, which charon then begins to establish.
func (d *Driver) loadConn(c dataplane.Conn) error {
	if c.Other != "" {
		return fmt.Errorf("this driver makes no connection of form %s: %w", c.Other, driver.ErrUnsupported)
	}
	err := d.command("load-conn", loading(c))
	if err != nil && strings.Contains(err.Error(), "esp_proposals") {
		return fmt.Errorf("this charon knows no ESP proposal %s (Backend ESPProposal): %w", c.ESP, err)
	}
	if err != nil {
		return err
	}
	d.conns[c.ConnKey] = c
	return nil
}

// loading returns the arguments of load-conn (interop 6.6: the connection and its child). Of these only
// dpd_delay is not part of the contract.
func loading(c dataplane.Conn) map[string]any {
	child := map[string]any{
		"local_ts": []string{c.LocalNet.String()}, "remote_ts": []string{c.RemoteNet.String()},
		"esp_proposals": []string{c.ESP}, "start_action": "start", "close_action": "trap", "dpd_action": "restart",
		"mode": "tunnel", "reqid": strconv.Itoa(dataplane.ReqID), "rekey_time": "1h", "policies": "no",
	}
	conn := map[string]any{
		"local_addrs": []string{c.Local.String()}, "remote_addrs": []string{c.Remote.String()},
		"proposals": []string{ikeProposal}, "version": "2", "keyingtries": "0", "encap": strconv.FormatBool(c.Encap),
		"dpd_delay": silence,
		"local":     map[string]any{"auth": "psk"}, "remote": map[string]any{"auth": "psk"},
		"children": map[string]any{c.Child(): child},
	}
	return map[string]any{c.Name(): conn}
}

// unloadConn unloads a connection and ends its tunnel.
func (d *Driver) unloadConn(k dataplane.ConnKey) error {
	err := d.command("unload-conn", map[string]any{"name": k.Name()})
	delete(d.conns, k)
	return cmp.Or(d.terminate(tunnelsOf(k)), err)
}

// tunnelsOf names the tunnels of a connection in a command that does not wait for the
// peer.
func tunnelsOf(k dataplane.ConnKey) map[string]any {
	return map[string]any{"ike": k.Name(), "timeout": "-1"}
}

// terminate ends the tunnels that a command names, if there are any.
func (d *Driver) terminate(which map[string]any) error {
	return UntilNone(func() error { return d.command("terminate", which) })
}

// terminations is the largest number of attempts to end the same tunnels.
const terminations = 3

// UntilNone calls terminate, which asks charon to end tunnels, until none is left. While charon ends
// several, it may find that the peer has just ended one of them. It is no error if there was none.
func UntilNone(terminate func() error) (err error) {
	for range terminations {
		err = terminate()
		switch {
		case err == nil || strings.Contains(err.Error(), "no matching"):
			return nil
		case !strings.Contains(err.Error(), "not all matching"):
			return err
		}
	}
	return err
}

// command performs a command of VICI.
func (d *Driver) command(name string, args map[string]any) error {
	m, err := message(args)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err = d.session.CommandRequest(name, m)
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "not found"):
		return fmt.Errorf("%s: %w: %w", name, driver.ErrNotFound, err)
	}
	return fmt.Errorf("%s: %w: %w", name, driver.ErrInvalid, err)
}

// message returns a message of VICI with these members, in order of their names.
func message(args map[string]any) (*vici.Message, error) {
	m := vici.NewMessage()
	for _, key := range slices.Sorted(maps.Keys(args)) {
		value := args[key]
		if section, ok := value.(map[string]any); ok {
			inner, err := message(section)
			if err != nil {
				return nil, err
			}
			value = inner
		}
		if err := m.Set(key, value); err != nil {
			return nil, err
		}
	}
	return m, nil
}
