package daemon

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/node"
)

// A node that begins with WireGuard, at its start or in a change of the backend, knows its key from its next look at
// the host. That is no reason for a warning.
func TestNoWarningBeforeTheKeyIsRead(t *testing.T) {
	var out strings.Builder
	c := newCluster(t, 7, 2, func(o *Options) { o.OnLog = func(line string) { fmt.Fprintln(&out, line) } })
	for _, backend := range []string{"wireguard", "vxlan", "wireguard"} {
		must(t, c.store.Put("config", `{"Network":"10.5.0.0/16","Backend":{"Type":"`+backend+`"},"Formerly":[]}`, 0))
		if out.Len() == 0 {
			c.start()
		}
		c.Run(2 * time.Minute)
	}
	if strings.Contains(out.String(), "no-attributes") {
		t.Errorf("a node warns before it has looked for its key:\n%s", out.String())
	}
	for _, d := range c.daemons {
		if s := d.Status(); !s.Ready || s.Backend != "wireguard" {
			t.Errorf("ready %v with %s", s.Ready, s.Backend)
		}
	}
}

// TestKeysStayInside runs a cluster with WireGuard and a pre-shared key through a
// time without the private keys, and searches all output of the run for both.
func TestKeysStayInside(t *testing.T) {
	const psk = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="
	var out strings.Builder
	c := newCluster(t, 7, 2, func(o *Options) { o.OnLog = func(line string) { fmt.Fprintln(&out, line) } })
	const conf = `{"Network":"10.5.0.0/16","Backend":{"Type":"wireguard","PSK":"` + psk + `"}}`
	must(t, c.store.Put("config", conf, 0)) // the datastore itself holds the key
	c.Trace(func(line string) { fmt.Fprintln(&out, line) })
	for _, d := range c.daemons {
		d.FailSecrets(errors.New("the disk is gone"))
	}
	c.start()
	c.Run(10 * time.Second)
	if c.daemons[0].Status().Ready || !strings.Contains(out.String(), "no-attributes") {
		t.Error("a node without its key is ready, or does not say why it is not")
	}
	for _, d := range c.daemons {
		d.FailSecrets(nil)
	}
	c.Run(2 * time.Minute)
	for _, d := range c.daemons {
		if !d.Status().Ready {
			t.Error("a node is not ready although its key is back")
		}
		status, err := json.Marshal(d.Status())
		must(t, err)
		file, _ := d.File(node.SubnetFile)
		fmt.Fprintf(&out, "%s\n%+v\n%s", status, d.Status(), file)
		secret, err := d.Secrets().Secret(dataplane.WireGuardKey)
		must(t, err)
		if text := base64.StdEncoding.EncodeToString(secret.Bytes()); strings.Contains(out.String(), text) {
			t.Error("a private key is in the output")
		}
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, psk) {
			t.Errorf("the pre-shared key is in the output: %s", line)
		}
	}
	if !strings.Contains(out.String(), "psk-") {
		t.Error("the output does not mention the pre-shared key at all")
	}
}
