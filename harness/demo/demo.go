package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/harness"
)

const (
	nodes   = 3
	config  = `{"Network": "10.5.0.0/16", "Backend": {"Type": "vxlan"}}`
	device  = "flannel.1" // the device of the config above
	family  = cidr.V4
	patient = 30 * time.Second // how long any one step may take
)

// Options say what to show.
type Options struct {
	Daemon string    // path of flanneld
	Tool   string    // path of flannelctl
	Hold   bool      // stay up until ctx ends, and print how to look around
	Out    io.Writer // for people to read
}

// show is one run of the demo.
type show struct {
	Options
	lab     *harness.Lab
	started time.Time
}

// Run shows everything and returns an error if a step failed. It ends with ctx,
// which is an error unless it is holding the lab up.
func Run(ctx context.Context, o Options) (err error) {
	s := &show{Options: o, started: time.Now()}
	for _, program := range []string{o.Daemon, o.Tool} {
		if _, err := os.Stat(program); err != nil {
			return fmt.Errorf("find the programs: %w (make build makes them)", err)
		}
	}
	s.say("flannel on %d nodes, each a network namespace with a flanneld of its own; config %s", nodes, config)
	if err := s.build(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.lab.Close()) }()
	for _, step := range []func(context.Context) error{s.startDaemons, s.addPods, s.pingAll, s.breakAndHeal, s.peers} {
		if err := within(ctx, step); err != nil {
			s.logs()
			return err
		}
	}
	s.say("done: all of it worked")
	if !o.Hold {
		return nil
	}
	return s.hold(ctx)
}

// within runs a step within its time limit.
func within(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	return step(ctx)
}

// say prints a line with the time since the start.
func (s *show) say(format string, args ...any) {
	fmt.Fprintf(s.Out, "%6.2fs  %s\n", time.Since(s.started).Seconds(), fmt.Sprintf(format, args...))
}

// logs prints the last lines of each daemon's log.
func (s *show) logs() {
	for _, n := range s.lab.Nodes {
		fmt.Fprintf(s.Out, "\n--- the last lines of flanneld on %s (%s)\n%s\n", n.Name,
			state(context.Background(), n), n.LogTail(20))
	}
	fmt.Fprintln(s.Out)
}

func (s *show) build(ctx context.Context) error {
	return within(ctx, func(ctx context.Context) (err error) {
		s.lab, err = harness.New(ctx, harness.Options{Nodes: nodes, Config: config, Daemon: s.Daemon})
		if err != nil {
			return err
		}
		s.say("underlay %s is up, etcd serves at %s", s.lab.Nodes[0].Underlay(family).Masked(), s.lab.Store.Endpoint())
		return nil
	})
}

func (s *show) startDaemons(ctx context.Context) error {
	for _, n := range s.lab.Nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	s.say("flanneld started on every node")
	for _, n := range s.lab.Nodes {
		if err := n.WaitReady(ctx); err != nil {
			return err
		}
		env, err := n.SubnetEnv()
		if err != nil {
			return err
		}
		s.say("%s is ready: it leased %s", n.Name, env.Subnet[family].Masked())
	}
	return nil
}

func (s *show) addPods(ctx context.Context) error {
	var names []string
	for _, n := range s.lab.Nodes {
		p, err := n.AddPod(ctx)
		if err != nil {
			return err
		}
		names = append(names, fmt.Sprintf("%s %s", p.Name, p.Addr(family)))
	}
	s.say("a pod on every node: %s", strings.Join(names, ", "))
	return nil
}

// pingAll pings every pod from every pod.
func (s *show) pingAll(ctx context.Context) error {
	s.say("every pod pings every pod:")
	pods := s.lab.Pods()
	rows := [][]string{{""}}
	for _, p := range pods {
		rows[0] = append(rows[0], "to "+p.Name)
	}
	for _, from := range pods {
		row := []string{"from " + from.Name}
		for _, to := range pods {
			rtt, err := s.ping(ctx, from, to)
			if err != nil {
				return err
			}
			row = append(row, rtt)
		}
		rows = append(rows, row)
	}
	return s.columns(rows)
}

// ping returns the round-trip time. A ready node reaches every node that it knows,
// but may learn a moment later of a node that became ready after it. So ping
// retries until ctx ends.
func (s *show) ping(ctx context.Context, from, to *harness.Pod) (string, error) {
	if from == to {
		return "-", nil
	}
	result, err := s.reach(ctx, from, to)
	if err != nil {
		return "", err
	}
	if result.Source != from.Addr(family) {
		return "", fmt.Errorf("%s pinged %s, which saw it as %s: its source was changed", from.Name, to.Name, result.Source)
	}
	return fmt.Sprintf("%.2f ms", float64(result.RTT.Microseconds())/1000), nil
}

// reach pings until there is a reply, and then returns the fastest of three.
func (s *show) reach(ctx context.Context, from, to *harness.Pod) (harness.PingResult, error) {
	for {
		_, err := from.Ping(ctx, to.Addr(family), harness.PingOptions{Timeout: 100 * time.Millisecond})
		if err == nil {
			return from.Ping(ctx, to.Addr(family), harness.PingOptions{Count: 3})
		}
		if ctx.Err() != nil || !errors.Is(err, harness.ErrNoReply) && !errors.Is(err, harness.ErrUnreachable) {
			return harness.PingResult{}, err
		}
	}
}

// breakAndHeal deletes a node's device and watches it come back.
func (s *show) breakAndHeal(ctx context.Context) error {
	victim, pods := s.lab.Nodes[1], s.lab.Pods()
	before, err := victim.Netlink().LinkByName(device)
	if err != nil {
		return fmt.Errorf("node %s: find %s: %w", victim.Name, device, err)
	}
	if err := victim.DeleteLink(device); err != nil {
		return err
	}
	broken := time.Now()
	s.say("deleted %s on %s, with every route, neighbour and forwarding entry through it", device, victim.Name)
	if err := victim.Await(ctx, device+" to come back", func() (bool, error) {
		after, err := victim.Netlink().LinkByName(device)
		return err == nil && after.Attrs().Index != before.Attrs().Index, nil
	}); err != nil {
		return err
	}
	s.say("%s is back on %s after %d ms", device, victim.Name, time.Since(broken).Milliseconds())
	for _, i := range []int{0, 2} {
		for _, way := range [][2]*harness.Pod{{pods[i], pods[1]}, {pods[1], pods[i]}} {
			if _, err := s.reach(ctx, way[0], way[1]); err != nil {
				return err
			}
		}
	}
	s.say("its pod reaches every pod and is reached from every pod again, %d ms after the deletion",
		time.Since(broken).Milliseconds())
	return victim.WaitReady(ctx)
}

// state returns the node's state in a word, or with the reason.
func state(ctx context.Context, n *harness.Node) string {
	if !n.Running() {
		return fmt.Sprintf("not running: %v", n.ExitStatus())
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := n.Ready(ctx); err != nil {
		return "not ready: " + strings.Join(strings.Fields(err.Error()), " ")
	}
	return "ready"
}
