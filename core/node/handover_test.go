package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flanneld/flannel/core/dataplane"
)

// takingConfig is a config whose commands use the name of vxlan's device.
const takingConfig = `{"Network":"10.5.0.0/16","Backend":{"Type":"extension","PreStartupCommand":"pre",` +
	`"PostStartupCommand":"make flannel.1","SubnetAddCommand":"add"}}`

// operators are the parameters of the device that the command makes.
var operators = dataplane.VXLAN{VNI: 77}

// make1 lets commands that mention flannel.1 make that device, and reports those that found the node's own.
func (w *world) make1() {
	w.t.Helper()
	w.shell.refuse = func(run string) error {
		l, exists := w.host.Links["flannel.1"]
		if exists && vxlanOf(l) != operators {
			w.t.Errorf("%s runs beside the node's own %s", run, l)
		}
		if strings.HasPrefix(run, "make flannel.1 ") {
			w.host.AddLink(dataplane.Link{Name: "flannel.1", Up: true, Params: operators})
		}
		return nil
	}
}

// wantOperators checks that the device of the operator is there, and the node ready.
func (w *world) wantOperators(when string) {
	w.t.Helper()
	l, exists := w.host.Links["flannel.1"]
	if !exists || vxlanOf(l) != operators {
		w.t.Fatalf("%s, the operator's flannel.1 is gone:\n%s", when, w.log())
	}
	w.wantReady()
}

// The backend changes to commands that make a device with the name of the former one's.
func TestHandsOverAName(t *testing.T) {
	w := readyWorld(t)
	w.make1()
	w.configure(takingConfig)
	w.pass(2 * time.Minute)
	w.wantRuns("pre", "make")
	w.wantOperators("after the change")
	w.start()
	w.tell()
	w.pass(2 * time.Minute)
	w.wantOperators("after a restart")
}

// The same with a daemon that dies before the change, and starts with the new config.
func TestHandsOverANameAfterAKill(t *testing.T) {
	w := readyWorld(t)
	if !strings.Contains(w.files[StateFile], "flannel.1") {
		t.Fatalf("the state file does not name flannel.1: %s", w.files[StateFile])
	}
	w.make1()
	w.start()
	w.configure(takingConfig)
	w.pass(2 * time.Minute)
	w.wantRuns("pre", "make")
	w.wantOperators("after the start")
}

// A daemon dies after the command has made its device, and before the state file tells of the change. A command for a
// peer would not run again.
func TestHandsOverANameOnce(t *testing.T) {
	w := readyWorld(t)
	old := w.files[StateFile]
	w.make1()
	config := strings.NewReplacer(`"PreStartupCommand":"pre",`, "", "PostStartupCommand", "SubnetRemoveCommand",
		`"SubnetAddCommand":"add"`, `"SubnetAddCommand":"make flannel.1"`).Replace(takingConfig)
	w.commandPeer(4, "four")
	w.configure(config)
	w.pass(time.Second)
	w.wantRuns("make")
	w.wantOperators("after the change")
	w.files[StateFile] = old
	w.start()
	w.tell()
	w.pass(2 * time.Minute)
	w.wantRuns()
	w.wantOperators("after the kill")
}

// No command runs while the host refuses to delete the device, and the status says why.
func TestCommandsWaitForAName(t *testing.T) {
	w := readyWorld(t)
	w.make1()
	w.applyErr = func(op dataplane.Op) error {
		if _, is := op.Object.(dataplane.Link); is && op.Verb == dataplane.Delete {
			return errors.New("device busy")
		}
		return nil
	}
	w.configure(takingConfig)
	w.pass(time.Minute)
	w.wantRuns()
	reasons := strings.Join(w.status().Reasons, "\n")
	for _, part := range []string{"device busy", "wait until the node has removed its own flannel.1"} {
		if !strings.Contains(reasons, part) {
			t.Errorf("reasons %q lack %q", reasons, part)
		}
	}
	w.applyErr = nil
	w.pass(time.Minute)
	w.wantRuns("pre", "make")
	w.wantOperators("once the host obeys")
}

// Only a whole word of a command of the backend extension names a device of the operator.
func TestDeviceThatNoCommandNames(t *testing.T) {
	for _, backend := range []string{
		`{"Type":"extension","SubnetAddCommand":"true"}`,
		`{"Type":"extension","Comment":"no longer flannel-wg","SubnetAddCommand":"true"}`,
		`{"Type":"extension","PostStartupCommand":"ip link add flannel-wg0 type wireguard"}`,
		`{"Type":"extension","PostStartupCommand":"ip link add my.flannel-wg type wireguard"}`,
		`{"Type":"host-gw","Comment":"was wireguard on flannel-wg until May"}`,
	} {
		w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":`+backend+`}`)
		w.addDevice("flannel-wg", "10.5.9.0/32", dataplane.WireGuard{})
		w.tell()
		w.pass(2 * time.Second)
		if _, ok := w.host.Links["flannel-wg"]; ok {
			t.Errorf("flannel-wg of a former run is left with %s", backend)
		}
	}
	for _, backend := range []string{
		`{"Type":"extension","PreStartupCommand":"cat /sys/class/net/flannel-wg/address"}`,
		`{"Type":"extension","ShutdownCommand":"ip link del flannel-wg"}`,
		`{"Type":"extension","SubnetAddCommand":"IF=flannel-wg; wg set $IF"}`,
		`{"Type":"extension","SubnetRemoveCommand":"wg show \"flannel-wg\";"}`,
	} {
		w := newWorld(t, `{"Network":"10.5.0.0/16","Backend":`+backend+`}`)
		w.addDevice("flannel-wg", "10.5.9.0/32", dataplane.WireGuard{})
		w.tell()
		w.pass(2 * time.Second)
		if _, ok := w.host.Links["flannel-wg"]; !ok {
			t.Errorf("the node took flannel-wg with %s", backend)
		}
	}
}
