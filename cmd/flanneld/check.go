package main

import (
	"fmt"
	"net/netip"

	"github.com/flanneld/flannel/drivers/linux/charon"
	"github.com/flanneld/flannel/internal/hostpaths"
)

// check refuses values that parse but make no sense.
func (o *options) check() error {
	switch {
	case o.renewMargin < minRenewMargin || o.renewMargin > maxRenewMargin:
		return fmt.Errorf("--subnet-lease-renew-margin is %d minutes; it must be %d to %d", o.renewMargin, minRenewMargin,
			maxRenewMargin)
	case o.leaseTTL < minLeaseTTL || o.leaseTTL > maxLeaseTTL:
		return fmt.Errorf("--subnet-lease-ttl is %s; it must be %s to %s", o.leaseTTL, minLeaseTTL, maxLeaseTTL)
	case o.changeLimit <= 0:
		return fmt.Errorf("--backend-change-limit is %s; it must be more than 0", o.changeLimit)
	case o.iptablesResync <= 0:
		return fmt.Errorf("--iptables-resync is %d seconds; it must be 1 or more", o.iptablesResync)
	case o.nextHopsFrom < 0:
		return fmt.Errorf("--next-hop-objects is %d; it must be 0 or more", o.nextHopsFrom)
	case o.subnetFile == "":
		return fmt.Errorf("--subnet-file is empty; it must name a file")
	case o.probeInterval != 0 && o.probeInterval < minProbeInterval:
		return fmt.Errorf("--probe-interval is %s; it must be %s or more, or 0", o.probeInterval, minProbeInterval)
	case o.probeUnreadyAfter < 0:
		return fmt.Errorf("--probe-unready-after is %s; it must be 0 or more", o.probeUnreadyAfter)
	case o.ifaceFromNode && !o.kube.On:
		return fmt.Errorf("--iface-from-node needs --kube-subnet-mgr: in etcd there is no node object")
	case o.healthzPort > 65535:
		return fmt.Errorf("--healthz-port is %d; it must be 65535 or less", o.healthzPort)
	}
	if err := o.checkNetworks(); err != nil {
		return err
	}
	if _, err := netip.ParseAddr(o.healthzIP); o.healthzPort > 0 && err != nil {
		return fmt.Errorf("--healthz-ip is %q; it must be an IP address", o.healthzIP)
	}
	if err := o.servers.check(o.kube.On, o.embedEtcd.dir); err != nil {
		return err
	}
	_, err := charon.New(o.charonOptions())
	return err
}

// statePaths returns the path of the state file, and of an earlier release's.
func (o *options) statePaths() (path, former string) {
	return hostpaths.StatePaths(o.subnetFile, o.stateFile)
}
