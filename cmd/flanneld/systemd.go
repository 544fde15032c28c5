package main

import (
	"strings"

	sd "github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/klog/v2"

	"github.com/flanneld/flannel/core/node"
)

// systemd reports the state of the node to systemd, if that started the daemon
// with Type=notify. It sends READY=1 when the host is programmed, even from
// saved leases while the datastore is away: otherwise systemd kills and
// restarts the unit, and each restart cuts the udp backend's traffic. STATUS=
// says what is missing.
type systemd struct {
	ready bool
	said  string
}

// report sends changes. Only one goroutine may call it.
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
