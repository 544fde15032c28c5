package kernel

import "github.com/flanneld/flannel/core/driver"

// Process is a program on a host that may carry packets itself, as the udp
// backend does. Its packet paths and its WireGuard end with it.
type Process struct {
	host  *Host
	paths *paths
}

// NewProcess returns a program on the host, with its secrets. The kernel passes it packets
// through attend, which calls its argument at once if the program runs, later if it is
// halted, and never if it is dead.
func (h *Host) NewProcess(secrets driver.Secrets, attend func(do func())) *Process {
	p := &Process{host: h, paths: newPaths(h.stack)}
	p.paths.secrets = secrets
	p.paths.attend = attend
	return p
}

// Driver returns the host's lane as the program sees it, with its own packet paths.
func (p *Process) Driver() driver.Lane { return &hostDriver{h: p.host, paths: p.paths} }

// OnHint is [Host.OnHint] for the program, which hears no hint at what it has changed itself.
func (p *Process) OnHint(fn func()) (end func()) { return p.host.hints.on(fn, p.paths) }

// End removes the packet paths. A device may lose its carrier.
func (p *Process) End() {
	p.paths.endAll()
	p.paths.endWGDevices()
	p.host.changed++
}
