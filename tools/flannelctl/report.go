package flannelctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/core/control"
	"github.com/flanneld/flannel/core/node"
	"github.com/flanneld/flannel/core/subnetfile"
	"github.com/flanneld/flannel/internal/page"
	"github.com/flanneld/flannel/tools/output"
	"github.com/flanneld/flannel/tools/report"
	"github.com/flanneld/flannel/tools/trace"
)

// mostTraces is the number of peers to which a report traces the probes of this host.
const mostTraces = 40

// reported is the result of the command report.
type reported struct {
	File    string   `json:"File"`
	OK      bool     `json:"OK"`      // all is well, and every question was answered
	Summary []string `json:"Summary"` // as the page has it
	Missing []string `json:"Missing"` // what could not be learnt
}

// Trouble reports whether the page shows trouble.
func (r reported) Trouble() bool { return !r.OK }

// Text names the page, and says what it says first.
func (r reported) Text(p *output.Page) {
	for _, sentence := range r.Summary {
		p.Sentencef("%s", strings.ReplaceAll(sentence, "`", ""))
	}
	for _, text := range r.Missing {
		p.Sentence(output.Warn("not known: " + text))
	}
	p.Line(output.Good(r.File))
}

func (a *app) report() *cobra.Command {
	var flags asking
	var file string
	var port uint16
	c := &cobra.Command{
		Use:   "report [ADDRESS...]",
		Short: "Write a page about the cluster: topology, events, who reaches whom",
		Long: "report asks a daemon, and the daemons at the health listeners ADDRESS, such as 10.0.0.3:8081, for what\n" +
			"they know, and writes one HTML page that a browser shows without a network: the nodes and their states, the\n" +
			"events that each daemon remembers, who reaches whom, the way of packets, and the difference between each\n" +
			"host and its desired state. With --port it asks all nodes that the first daemon knows, and with\n" +
			"--all-nodes those of Kubernetes. It works without any answer, and the page says what could not be\n" +
			"learnt. It names addresses and subnets.",
		RunE: func(c *cobra.Command, args []string) error {
			daemons, err := collect(c.Context(), &flags, args, port)
			if err != nil {
				return err
			}
			now := time.Now()
			rec := report.Build(now, daemons, commandLine(c, args))
			file = cmp.Or(file, fmt.Sprintf("flannel-report-%s.html", now.UTC().Format("20060102T150405Z")))
			if err := writeNew(file, func(w io.Writer) error { return page.Write(w, rec) }); err != nil {
				return err
			}
			return a.printFound(reported{file, rec.OK, rec.Summary, rec.Missing})
		},
	}
	flags.defineDaemon(c)
	definePort(c, &port)
	flags.defineAll(c)
	c.Flags().StringVarP(&file, "file", "f", "", "the page's `path` (default flannel-report-TIME.html, here)")
	return c
}

// commandLine returns the command as the user typed it, for the page.
func commandLine(c *cobra.Command, args []string) string {
	line := []string{"flannelctl", "report"}
	if port := c.Flag("port"); port.Changed {
		line = append(line, "--port", port.Value.String())
	}
	return strings.Join(append(line, args...), " ")
}

// writeNew writes a new file, for its owner alone. It leaves none behind if it fails, such as on a full disk.
func writeNew(file string, write func(io.Writer) error) error {
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = write(out)
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", file, err), os.Remove(file))
	}
	return nil
}

// collect asks all daemons for all they know.
func collect(ctx context.Context, flags *asking, addresses []string, port uint16) ([]report.Daemon, error) {
	ask := func(q question) report.Daemon { return q.askAllPages(ctx) }
	if flags.all {
		nodes, err := flags.everyNode(ctx)
		return atOnce(append(nodes, further(addresses, control.Peers{}, 0)...), ask), err
	}
	first := ask(question{from: cmp.Or(flags.node, flags.address, "this node"), client: flags.client()})
	if flags.address == "" && flags.node == "" {
		traceProbes(ctx, &first, flags.subnetFile)
	}
	others := further(addresses, first.Peers, port)
	return append([]report.Daemon{first}, atOnce(others, ask)...), nil
}

// askAllPages asks the daemon for all that a report shows. A daemon that does not answer
// the first question is asked no other.
func (q question) askAllPages(ctx context.Context) report.Daemon {
	d := report.Daemon{From: q.from}
	miss := func(what string, err error) {
		if err != nil {
			d.Missing = append(d.Missing, fmt.Sprintf("%s: %v", what, err))
		}
	}
	status, err := q.client.Status(ctx)
	if err != nil {
		miss("everything", err)
		return d
	}
	d.Status = &status
	d.Events, err = q.client.Events(ctx)
	miss("events", err)
	d.Peers, err = q.client.Peers(ctx)
	miss("peers", err)
	diff, err := q.client.Diff(ctx)
	if err == nil {
		d.Diff = &diff
	}
	miss("difference", err)
	return d
}

// traceProbes traces the probes of this host through its kernel.
func traceProbes(ctx context.Context, d *report.Daemon, subnetFile string) {
	flows := probesOf(*d)
	if len(flows) == 0 {
		return
	}
	err := traceAll(ctx, d, flows, subnetFile)
	if err != nil {
		d.Missing = append(d.Missing, fmt.Sprintf("ways of packets through this host: %v", err))
	}
}

func traceAll(ctx context.Context, d *report.Daemon, flows []trace.Flow, subnetFile string) error {
	k, closeAll, err := openKernel(ctx)
	if err != nil {
		return err
	}
	defer closeAll()
	text, _ := os.ReadFile(subnetFile) // without it, flannel's networks are not known
	known := trace.Known{Networks: subnetfile.Networks(text), Peers: d.Peers.Peers}
	for _, flow := range flows {
		result, err := trace.Walk(ctx, k, flow, known)
		if err != nil {
			return err
		}
		d.Traces = append(d.Traces, result)
	}
	return nil
}

// probesOf returns the probes of a host to its peers, as packets to trace.
func probesOf(d report.Daemon) []trace.Flow {
	var flows []trace.Flow
	for _, p := range d.Peers.Peers {
		for _, w := range p.Ways {
			if flow, ok := probeOf(*d.Status, w); ok && len(flows) < mostTraces {
				flows = append(flows, flow)
			}
		}
	}
	return flows
}

// probeOf returns the packet that probes a peer. Its source is the address of flannel's
// device, or that of the uplink if packets leave without a device.
func probeOf(s node.Status, w node.Way) (trace.Flow, bool) {
	if w.Probe == nil || !w.Probe.Address.IsValid() || !w.Subnet.Contains(w.Probe.Address) {
		return trace.Flow{}, false
	}
	family := cidr.FamilyOf(w.Probe.Address)
	source := s.Uplink.Addr(family)
	if own := s.Subnet.Of(family); own.IsValid() && w.Type == "tunnel" {
		source = own.Masked().Addr()
	}
	return trace.Flow{Src: source, Dst: w.Probe.Address, Size: pingSize}, source.IsValid()
}
