package main

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/flanneld/flannel/core/node"
)

// systemd reports the state of the nodes to systemd, if that started the daemon
// with Type=notify. It sends READY=1 when the host is programmed for all of them, even
// from saved leases while the datastore is away: otherwise systemd kills and
// restarts the unit, and each restart cuts the udp backend's traffic. For the same reason it does not
// wait for a network without a usable config while another one runs. STATUS= says what is missing.
type systemd struct {
	mu       sync.Mutex
	pulses   map[string]node.Pulse // of each network
	complete bool                  // all networks are known
	ready    bool
	said     string
	notices  *notifier
}

func newSystemd() *systemd {
	return &systemd{pulses: map[string]node.Pulse{}, notices: newNotifier(notifySocket, notifyAgain)}
}

// join adds a network, whose first pulse is still to come.
func (s *systemd) join(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pulses[name] = node.Pulse{}
}

// leave removes a network.
func (s *systemd) leave(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pulses, name)
	s.report(true)
}

// known says that the process knows its networks.
func (s *systemd) known() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complete = true
	s.report(false)
}

// of returns the function that takes the pulses of one node.
func (s *systemd) of(name string) func(node.Pulse) {
	return func(p node.Pulse) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.pulses[name] = p
		s.report(true)
	}
}

// report sends changes. Without all, only the one that matters to systemd itself.
func (s *systemd) report(all bool) {
	var lines []string
	waits, runs := !s.complete, len(s.pulses) == 0
	for _, name := range slices.Sorted(maps.Keys(s.pulses)) {
		p := s.pulses[name]
		line := statusLine(p)
		if name != "" {
			line = name + ": " + line
		}
		lines = append(lines, line)
		runs = runs || p.Programmed > 0
		waits = waits || p.Programmed == 0 && !p.Unusable
	}
	first := !s.ready && runs && !waits
	text := "STATUS=" + strings.Join(lines, " | ")
	if !first && (text == s.said || !all) {
		return
	}
	s.said = text
	if first {
		s.ready = true
		text = withReady(text)
	}
	s.notices.add(text)
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
