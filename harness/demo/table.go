package demo

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"text/tabwriter"
)

// columns prints rows of cells, aligned and indented.
func (s *show) columns(rows [][]string) error {
	w := tabwriter.NewWriter(s.Out, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		fmt.Fprintf(w, "    %s\n", strings.Join(row, "\t"))
	}
	return w.Flush()
}

// peers prints the peers of each node, as flannelctl shows them. It fails if a node is
// not ready, or does not serve a peer.
func (s *show) peers(ctx context.Context) error {
	for _, n := range s.lab.Nodes {
		if err := n.WaitReady(ctx); err != nil {
			return fmt.Errorf("at the end %s is %s", n.Name, state(ctx, n))
		}
		s.say("flannelctl peers on %s, which has %s:", n.Name, n.Underlay(family).Addr())
		out, err := exec.CommandContext(ctx, s.Tool, "peers", "--subnet-file", n.SubnetFile()).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			fmt.Fprintf(s.Out, "    %s", line)
		}
		if err != nil {
			return fmt.Errorf("flannelctl peers on %s: %w", n.Name, err)
		}
	}
	return nil
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
		root := fmt.Sprintf("/proc/%d/root", os.Getpid())
		tool := fmt.Sprintf("%s status --subnet-file %s", s.Tool, root+n.SubnetFile())
		fmt.Fprintf(s.Out, "  %s   a shell      %s bash\n       its device   %s ip -d link show %s\n"+
			"       its status   %s\n       its log      tail -f %s\n"+
			"  %s   a shell      %s bash\n       a ping       %s ping %s\n\n",
			n.Name, node, node, device, tool, root+n.LogFile(), "  ", inside, inside, peer.Addr(family))
	}
	fmt.Fprintf(s.Out, "Instead of status, try peers, diff, status -o json, or peers --watch.\n\n")
	<-ctx.Done()
	s.say("ending")
	return nil
}
