package flannelctl

import (
	"cmp"
	"context"
	"net/netip"
	"sync"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/tools/daemon"
	"github.com/flanneld/flannel/tools/mesh"
)

// asksAtOnce is the number of daemons that mesh asks at the same time.
const asksAtOnce = 16

func (a *app) mesh() *cobra.Command {
	var flags asking
	var port uint16
	cmd := &cobra.Command{
		Use:   "mesh [ADDRESS...]",
		Short: "Show which nodes reach which, as a matrix",
		Long: "mesh asks a daemon, and the daemons at the health listeners ADDRESS, such as 10.0.0.3:8081, for the\n" +
			"findings of their probes, and shows the round trip time and the largest packet that passes for each pair\n" +
			"of nodes. With --port it asks all nodes that the first daemon knows, and with --all-nodes those of Kubernetes.\n" +
			"If packets are lost, it says in which direction.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd.Context(), &flags, func(ctx context.Context) (finding, error) {
				ask := func(q question) mesh.Answer { return q.ask(ctx) }
				if flags.all {
					nodes, err := flags.everyNode(ctx)
					return mesh.Compare(atOnce(append(nodes, further(args, control.Peers{}, 0)...), ask)), err
				}
				first := question{from: cmp.Or(flags.node, "this node"), client: flags.client()}
				answers := []mesh.Answer{first.ask(ctx)}
				if err := answers[0].Err; err != nil && len(args) == 0 {
					return nil, err
				}
				others := further(args, answers[0].Peers, port)
				return mesh.Compare(append(answers, atOnce(others, ask)...)), nil
			})
		},
	}
	flags.define(cmd)
	definePort(cmd, &port)
	flags.defineAll(cmd)
	return cmd
}

// question is a daemon to ask.
type question struct {
	from   string
	client *daemon.Client
}

// ask asks the daemon for all that the mesh needs.
func (q question) ask(ctx context.Context) mesh.Answer {
	var status node.Status
	peers, err := q.client.Peers(ctx)
	if err == nil {
		status, err = q.client.Status(ctx)
	}
	return mesh.Answer{From: q.from, Status: status, Peers: peers, Err: err}
}

// definePort adds the flag that asks further daemons.
func definePort(cmd *cobra.Command, port *uint16) {
	cmd.Flags().Uint16Var(port, "port", 0, "ask all other nodes at this `port` of their health listeners; 0: do not")
}

// further returns the daemons at addresses, and unless port is 0 those of the peers, at
// that port of the addresses that they publish.
func further(addresses []string, all control.Peers, port uint16) []question {
	if port != 0 {
		for _, p := range all.Peers {
			ip := p.PublicIP
			if !ip.IsValid() {
				ip = p.PublicIP6
			}
			if ip.IsValid() {
				addresses = append(addresses, netip.AddrPortFrom(ip, port).String())
			}
		}
	}
	var qs []question
	for _, address := range addresses {
		qs = append(qs, question{from: address, client: daemon.Remote(address)})
	}
	return qs
}

// atOnce asks several daemons at the same time. The answers are in the order of the
// questions.
func atOnce[T any](qs []question, ask func(question) T) []T {
	answers := make([]T, len(qs))
	turns := make(chan struct{}, asksAtOnce)
	var all sync.WaitGroup
	for i, q := range qs {
		all.Add(1)
		turns <- struct{}{}
		go func() {
			defer all.Done()
			answers[i] = ask(q)
			<-turns
		}()
	}
	all.Wait()
	return answers
}
