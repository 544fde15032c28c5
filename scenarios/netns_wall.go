package scenarios

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/harness"
)

// firewallArgs tell a daemon which rules to make.
func (t Topology) firewallArgs() []string {
	args := []string{fmt.Sprintf("--ip-masq=%t", t.walled()), fmt.Sprintf("--iptables-forward-rules=%t", t.walled())}
	if t.Blackhole {
		args = append(args, "--ip-blackhole-route")
	}
	return args
}

// Outward implements [World]: the router knows the way.
func (w *NetnsWorld) Outward(name string) error {
	network, err := config.Parse([]byte(w.top.Config))
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range w.top.Families {
		errs = append(errs, w.Lab.Outward(network.Of(f).Network, w.Lab.Node(name)))
	}
	return errors.Join(errs...)
}

// netnsPlace is who can send and receive.
type netnsPlace struct {
	host *harness.Host
	addr netip.Addr
}

// place finds "n1.pod", "n1" and "outside".
func (w *NetnsWorld) place(name string, f cidr.Family) (netnsPlace, error) {
	if name == outsideName && w.Lab.Outside != nil {
		return netnsPlace{w.Lab.Outside.Host, w.Lab.Outside.Addr(f)}, nil
	}
	if n, ok := w.nodes[name]; ok {
		return netnsPlace{n.Host, n.node.Underlay(f).Addr()}, nil
	}
	pod, err := w.pod(name)
	if err != nil {
		return netnsPlace{}, err
	}
	return netnsPlace{pod.Host, pod.Addr(f)}, nil
}

func (w *NetnsWorld) places(from, to string, f cidr.Family) (a, b netnsPlace, err error) {
	if a, err = w.place(from, f); err != nil {
		return a, b, err
	}
	if b, err = w.place(to, f); err != nil {
		return a, b, err
	}
	if !a.addr.IsValid() || !b.addr.IsValid() {
		return a, b, fmt.Errorf("%s or %s has no %s address", from, to, f)
	}
	return a, b, nil
}

func (n *netnsNode) Rules() (driver.FirewallFacts, dataplane.State, error) {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	return n.Host.Rules(ctx)
}

// Strangers are all rules of iptables and nftables that do not name flannel.
func (n *netnsNode) Strangers() (string, error) {
	ctx, cancel := bounded(stepBound)
	defer cancel()
	text, err := n.Shell(ctx, "iptables-save; ip6tables-save; nft list tables")
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "-A") && !strings.Contains(strings.ToLower(line), "flannel") {
			b.WriteString(line)
		}
	}
	return b.String(), err
}

func (n *netnsNode) Upset(kind string, o UpsetOptions) error {
	u, known := upsets()[kind]
	if !known || u.real == "" {
		return errOnlySim
	}
	ctx, cancel := bounded(stepBound)
	defer cancel()
	_, err := n.Shell(ctx, u.script(o))
	return err
}
