package main

import (
	"fmt"
	"net/netip"
	"path/filepath"
)

// check refuses values that parse but make no sense.
func (o *options) check() error {
	switch {
	case o.renewMargin < minRenewMargin || o.renewMargin > maxRenewMargin:
		return fmt.Errorf("--subnet-lease-renew-margin is %d minutes; it must be %d to %d", o.renewMargin, minRenewMargin,
			maxRenewMargin)
	case o.leaseTTL < minLeaseTTL || o.leaseTTL > maxLeaseTTL:
		return fmt.Errorf("--subnet-lease-ttl is %s; it must be %s to %s", o.leaseTTL, minLeaseTTL, maxLeaseTTL)
	case o.iptablesResync <= 0:
		return fmt.Errorf("--iptables-resync is %d seconds; it must be 1 or more", o.iptablesResync)
	case o.subnetFile == "":
		return fmt.Errorf("--subnet-file is empty; it must name a file")
	case o.healthzPort > 65535:
		return fmt.Errorf("--healthz-port is %d; it must be 65535 or less", o.healthzPort)
	}
	if _, err := netip.ParseAddr(o.healthzIP); o.healthzPort > 0 && err != nil {
		return fmt.Errorf("--healthz-ip is %q; it must be an IP address", o.healthzIP)
	}
	return nil
}

// statePaths returns the path of the state file, and the path where an earlier
// release kept it: beside the subnet file. Each is empty if there is none. The
// path of the subnet file is part of both, so two daemons on one host do not
// collide.
func (o *options) statePaths() (path, former string) {
	if o.stateFile != defaultStateFile {
		return o.stateFile, ""
	}
	former = o.subnetFile + ".state"
	absolute, err := filepath.Abs(former)
	if err != nil { // the working directory no longer exists
		return former, ""
	}
	return filepath.Join(stateDir, absolute), former
}

// recordPath returns the path of the record of commands, beside the state file.
func recordPath(statePath string) string {
	if statePath == "" {
		return ""
	}
	return statePath + ".commands"
}
