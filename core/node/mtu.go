package node

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flanneld/flannel/core/backend"
	"github.com/flanneld/flannel/core/dataplane"
	"github.com/flanneld/flannel/core/driver"
)

// mtu returns the MTU of pods: the backend's, or less if the kernel refused it for a
// device.
func (n *Node) mtu() int {
	mtu := n.transition.Set().MTU(n.env())
	for name := range n.host.keepMTU {
		if have, ok := n.host.have.Links[name]; ok {
			mtu = min(mtu, have.MTU)
		}
	}
	return mtu
}

// keepsMTU reports whether the kernel refused only the MTU of an existing device.
// The device then stays as it is: a new one would have no larger MTU.
func (n *Node) keepsMTU(want dataplane.Link, err error) bool {
	have, exists := n.host.have.Links[want.Name]
	if !exists || !errors.Is(err, driver.ErrInvalid) || have.Become(want) != nil || want.MTU <= have.MTU {
		return false
	}
	if want.MAC.IsZero() {
		want.MAC = have.MAC
	}
	mtu := want.MTU
	want.MTU = have.MTU
	if want != have {
		return false
	}
	n.host.keepMTU[want.Name] = mtu
	n.event(Warning, "mtu-refused",
		fmt.Sprintf("%s: the kernel refuses MTU %d (%v); the device keeps %d, and pods get no more: "+
			"lower the MTU of the network config, or raise that of the uplink", want.Name, mtu, err, have.MTU))
	return true
}

// checkHost logs the backend's notes about this host, and keeps what the host
// lacks for it.
func (n *Node) checkHost() {
	present := n.transition.Set().PresentBackend()
	n.host.notes, n.host.lack = nil, nil
	if b, ok := present.(backend.Noter); ok {
		n.host.notes = b.Notes(n.env())
	}
	if b, ok := present.(backend.Checker); ok {
		n.host.lack = b.Check(n.env())
	}
	n.once(Warning, "backend-note", strings.Join(n.host.notes, "; "))
}
