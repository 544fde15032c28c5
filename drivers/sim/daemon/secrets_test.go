package daemon

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
)

const testSecret dataplane.SecretName = "tunnel-key"

// keyedLane is a lane whose links need a secret, as links with a private key do:
// it fetches the secret by name when it applies one.
type keyedLane struct {
	driver.Lane
	secrets driver.Secrets
	used    map[dataplane.Secret]bool
}

func (k keyedLane) Apply(ctx context.Context, ops []dataplane.Op) []error {
	for i, op := range ops {
		if _, ok := op.Object.(dataplane.Link); !ok {
			continue
		}
		secret, err := k.secrets.Secret(testSecret)
		if err != nil {
			errs := make([]error, len(ops))
			errs[i] = fmt.Errorf("%s: %w: %w", op, driver.ErrBusy, err)
			return errs
		}
		k.used[secret] = true
	}
	return k.Lane.Apply(ctx, ops)
}

// TestSecretsStayInside runs a cluster whose devices need secrets through a
// restart and a fault, and searches all output of the run for them.
func TestSecretsStayInside(t *testing.T) {
	used := map[dataplane.Secret]bool{}
	var out strings.Builder
	c := newCluster(t, 7, 2, func(o *Options) { o.OnLog = func(line string) { fmt.Fprintln(&out, line) } })
	c.Trace(func(line string) { fmt.Fprintln(&out, line) })
	c.OnNote(func(label, detail string) { fmt.Fprintln(&out, label, detail) })
	for _, d := range c.daemons {
		d.opts.Wrap = func(p Parts) Parts {
			p.Lanes[node.HostLane] = keyedLane{p.Lanes[node.HostLane], d.Secrets(), used}
			return p
		}
		d.FailSecrets(errors.New("the disk is gone"))
	}
	c.start()
	c.Run(10 * time.Second)
	if len(used) != 0 || c.daemons[0].Status().Ready {
		t.Error("a node is ready without its secret")
	}
	for _, d := range c.daemons {
		d.FailSecrets(nil)
	}
	c.settle(t)
	c.daemons[0].Kill()
	must(t, c.hosts[0].LinkDelete("flannel.1"))
	c.daemons[0].Start()
	c.settle(t)
	if len(used) != 2 {
		t.Errorf("%d secrets for 2 nodes", len(used))
	}
	for _, d := range c.daemons {
		for _, f := range []node.File{node.SubnetFile, node.StateFile} {
			data, _ := d.File(f)
			out.Write(data)
		}
		status, err := json.Marshal(d.Status())
		must(t, err)
		fmt.Fprintf(&out, "%s\n%+v\n", status, d.Status())
	}
	fmt.Fprintf(&out, "%+v", c.store.Snapshot())
	for secret := range used {
		raw := secret.Bytes()
		for _, form := range []string{
			string(raw), hex.EncodeToString(raw), base64.StdEncoding.EncodeToString(raw),
			base64.URLEncoding.EncodeToString(raw), fmt.Sprint(raw),
		} {
			if strings.Contains(out.String(), form) {
				t.Errorf("a secret is in the output, as %q", form)
			}
		}
	}
	if !strings.Contains(out.String(), "secret drawn "+string(testSecret)) {
		t.Error("the output does not mention the secrets at all")
	}
}
