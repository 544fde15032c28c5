package lang

import (
	"errors"
	"fmt"

	"github.com/flanneld/flannel/core/driver"
	"github.com/flanneld/flannel/core/node"
)

// overlayDevices are the devices that the backends create with the VNIs and ports of the cases.
var overlayDevices = []string{"flannel.1", "flannel-v6.1", "flannel0",
	"fl.1.8472", "fl6.1.8472", "fl.1.8473", "fl6.1.8473", "fl.udp.8285"}

// faultReboot performs "fault n2 reboot": the machine goes down and comes up
// without the daemon. The process, its devices, its routes on the uplink and its
// file below /run (the subnet file) are gone; its files below /var (the state
// file and the record of commands) and the pods stay.
func faultReboot(s *Session, name string, n Node, a *args, _ string) error {
	links, err := afterArgs[LinkEditor](s, n, a)
	if err != nil {
		return err
	}
	uplink, err := able[Uplink](s, n)
	if err != nil {
		return err
	}
	files, err := able[FileEditor](s, n)
	if err != nil {
		return err
	}
	s.ends(name)
	for _, do := range []func() error{n.Kill, uplink.UplinkDown, uplink.UplinkUp} {
		if err := do(); err != nil {
			return fmt.Errorf("fault reboot: %w", err)
		}
	}
	for _, dev := range overlayDevices {
		if err := links.LinkDelete(dev); err != nil && !errors.Is(err, driver.ErrNotFound) {
			return fmt.Errorf("fault reboot: %w", err)
		}
	}
	if machine, ok := n.(Rebooter); ok {
		machine.NoteReboot()
	}
	return files.SetFile(node.SubnetFile, nil)
}
