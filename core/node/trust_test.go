package node

import (
	"strings"
	"testing"
	"time"
)

// distrust is the option of a host whose datastore any program may write.
func distrust(o *Options) { o.TrustConfig = false }

// wantRefused fails the test unless the node has refused a config with commands, once, and run none.
func (w *world) wantRefused(what string) {
	w.t.Helper()
	want := "network config: " + what + " is refused: it runs commands as root, and any program that reaches the " +
		"datastore may write this config: protect the datastore by client certificates or a password, or start flanneld " +
		"with --allow-extension"
	if w.count("config-refused") != 1 || !strings.Contains(w.log(), want) {
		w.t.Errorf("the log has no %q:\n%s", want, w.log())
	}
	if reasons := strings.Join(w.status().Reasons, "\n"); !strings.Contains(reasons, want) {
		w.t.Errorf("the node is not ready because of %q, want %q", reasons, want)
	}
	if runs := w.shell.ran(); len(runs) > 0 || len(w.shell.kept) > 0 {
		w.t.Errorf("commands have run: %q", runs)
	}
}

// A writer of a datastore that any program may write gives a node no commands.
func TestCommandsOfAnyWriterAreRefused(t *testing.T) {
	w := newWorld(t, commandsConfig, distrust)
	w.commandPeer(4, "four")
	for range 2 {
		w.tell()
		w.pass(time.Minute)
	}
	w.wantRefused("Backend extension")
	if w.exit != nil || w.status().Phase != PhaseIdle {
		t.Errorf("exit %v, phase %s, want a node that waits for another config", w.exit, w.status().Phase)
	}
	w.configure(vxlanConfig)
	w.tell()
	w.pass(time.Second)
	w.wantReady()
}

// The config in force stays when such a writer puts commands in its place, as the backend or as a previous one.
func TestConfigInForceOutlivesCommandsOfAnyWriter(t *testing.T) {
	for what, conf := range map[string]string{
		"Backend extension": commandsConfig,
		"Formerly[1] extension": `{"Network":"10.5.0.0/16","Backend":{"Type":"vxlan"},` +
			`"Formerly":[{"Type":"udp"},{"Type":"extension","PreStartupCommand":"pre"}]}`,
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, vxlanConfig, distrust)
			w.tell()
			w.pass(time.Second)
			w.wantReady()
			before := w.host.Dump()
			w.configure(conf)
			w.tell()
			w.pass(time.Minute)
			w.wantRefused(what)
			if after := w.host.Dump(); after != before {
				t.Errorf("the host was\n%s\nand is\n%s", before, after)
			}
			w.configure(vxlanConfig)
			w.tell()
			w.pass(time.Second)
			w.wantReady()
		})
	}
}

// A restart takes the permission away: the config of the last run is no better than that of the datastore.
func TestRestartWithoutTrustRunsNothing(t *testing.T) {
	w := newWorld(t, commandsConfig)
	w.commandPeer(4, "four")
	w.tell()
	w.pass(700 * time.Millisecond)
	w.wantReady()
	w.shell.ran()
	kept := len(w.shell.kept)
	w.events = nil
	w.start(distrust)
	w.tell()
	w.pass(time.Minute)
	if runs := w.shell.ran(); len(runs) > 0 || len(w.shell.kept) != kept {
		t.Errorf("after a restart commands have run: %q", runs)
	}
	if w.count("config-refused") != 1 || w.exit != nil {
		t.Errorf("exit %v, log:\n%s", w.exit, w.log())
	}
}
