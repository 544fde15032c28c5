package main

import (
	"strings"
	"sync"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/agent"
	"github.com/flanneld/flannel/core/node"
)

// systemd reports the state of the nodes to systemd, if that started the daemon
// with Type=notify. It sends READY=1 when the host is programmed for all of them, even
// from saved leases while the datastore is away: otherwise systemd kills and
// restarts the unit, and each restart cuts the udp backend's traffic. For the same reason it does not
// wait for a network without a usable config while another one runs. STATUS= says what is missing.
type systemd struct {
	names []string // of the networks

	mu     sync.Mutex
	pulses []node.Pulse
	ready  bool
	said   string
}

func newSystemd(nodes []*agent.Health) *systemd {
	s := &systemd{pulses: make([]node.Pulse, len(nodes))}
	for _, h := range nodes {
		s.names = append(s.names, h.Network)
	}
	return s
}

// of returns the function that takes the pulses of one node.
func (s *systemd) of(i int) func(node.Pulse) {
	return func(p node.Pulse) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pulses[i] = p
		s.report()
	}
}

// report sends changes.
func (s *systemd) report() {
	lines := make([]string, len(s.pulses))
	waits, runs := false, false
	for i, p := range s.pulses {
		lines[i] = statusLine(p)
		if s.names[i] != "" {
			lines[i] = s.names[i] + ": " + lines[i]
		}
		runs = runs || p.Programmed > 0
		waits = waits || p.Programmed == 0 && !p.Unusable
	}
	first := !s.ready && runs && !waits
	text := "STATUS=" + strings.Join(lines, " | ")
	if text == s.said && !first {
		return
	}
	s.said = text
	if first {
		s.ready = true
		text = sd.SdNotifyReady + "\n" + text
	}
	if _, err := sd.SdNotify(false, text); err != nil {
		klog.Warningf("sd_notify: %v", err)
	}
}

// statusLine returns the line that systemctl status shows.
func statusLine(p node.Pulse) string {
	line := "ready"
	if p.Phase != node.PhaseReady {
		line = "not ready"
	}
	if p.Subnet.IsValid() {
		line += ", subnet " + p.Subnet.String()
	}
	if len(p.Reasons) > 0 {
		line += ": " + strings.Join(p.Reasons, "; ")
	}
	return strings.ReplaceAll(line, "\n", " ")
}
