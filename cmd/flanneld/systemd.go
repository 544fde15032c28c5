package main

import (
	"strings"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/node"
)

// systemd hears how the node is doing, if it started the daemon with
// Type=notify. It gets READY=1 when the host is programmed, even from saved
// leases while the datastore is away: without it a unit is killed and started
// again, and each restart cuts the udp backend's traffic. STATUS= tells what is
// missing.
type systemd struct {
	ready bool
	said  string
}

// report sends what has changed. It belongs to one goroutine.
func (s *systemd) report(pulse node.Pulse) {
	text := "STATUS=" + statusLine(pulse)
	first := !s.ready && pulse.Programmed > 0
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
