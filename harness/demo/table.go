package demo

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/flanneld/flannel/harness"
)

// columns prints rows of cells, aligned and indented.
func (s *show) columns(rows [][]string) error {
	w := tabwriter.NewWriter(s.Out, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(w, "         %s\n", strings.Join(row, "\t"))
	}
	return w.Flush()
}

// table prints the final state of each node.
func (s *show) table(ctx context.Context) error {
	s.say("what each node has:")
	rows := [][]string{{"NODE", "SUBNET", "PUBLIC IP", "DEVICE", "MTU"}}
	for _, p := range s.lab.Pods() {
		rows[0] = append(rows[0], "RTT "+p.Name)
	}
	rows[0] = append(rows[0], "STATE")
	var unready []string
	for i, n := range s.lab.Nodes {
		row, err := s.row(ctx, n, s.lab.Pods()[i])
		if err != nil {
			return err
		}
		if state := row[len(row)-1]; state != "ready" {
			unready = append(unready, n.Name+" is "+state)
		}
		rows = append(rows, row)
	}
	if err := s.columns(rows); err != nil {
		return err
	}
	if len(unready) > 0 {
		return fmt.Errorf("in the end %s", strings.Join(unready, ", "))
	}
	return nil
}

func (s *show) row(ctx context.Context, n *harness.Node, pod *harness.Pod) ([]string, error) {
	env, err := n.SubnetEnv()
	if err != nil {
		return nil, err
	}
	link, err := n.Netlink().LinkByName(device)
	if err != nil {
		return nil, fmt.Errorf("node %s: find %s: %w", n.Name, device, err)
	}
	row := []string{n.Name, env.Subnet[family].Masked().String(), n.Underlay(family).Addr().String(),
		device, strconv.Itoa(link.Attrs().MTU)}
	for _, to := range s.lab.Pods() {
		rtt, err := s.ping(ctx, pod, to)
		if err != nil {
			return nil, err
		}
		row = append(row, rtt)
	}
	return append(row, state(ctx, n)), nil
}

// hold prints how to look around, and waits.
func (s *show) hold(ctx context.Context) error {
	fmt.Fprintf(s.Out, "\nIt stays up until Ctrl-C. From another terminal, as the same user:\n\n")
	for i, n := range s.lab.Nodes {
		node, err := n.Enter()
		if err != nil {
			return err
		}
		pod := s.lab.Pods()[i]
		inside, err := pod.Enter()
		if err != nil {
			return err
		}
		peer := s.lab.Pods()[(i+1)%nodes]
		log := fmt.Sprintf("/proc/%d/root%s", os.Getpid(), n.LogFile())
		fmt.Fprintf(s.Out, "  %s   a shell      %s bash\n       its device   %s ip -d link show %s\n"+
			"       its log      tail -f %s\n"+
			"  %s   a shell      %s bash\n       a ping       %s ping %s\n\n",
			n.Name, node, node, device, log, "  ", inside, inside, peer.Addr(family))
	}
	<-ctx.Done()
	s.say("ending")
	return nil
}
