package cni

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strconv"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/flanneld/flannel/core/cidr"
	"github.com/flanneld/flannel/internal/files"
)

// subnetEnv holds the values of a subnet file (interop 4.1).
type subnetEnv struct {
	networks [2][]netip.Prefix // by family
	subnets  [2]netip.Prefix   // the node's, by family, as written: base and bridge address
	mtu      int               // bytes
	ipMasq   bool              // flanneld masquerades, so the delegate need not
}

// readSubnetFile reads the file that flanneld writes. A missing file means that
// the daemon is not ready yet: the error asks the runtime to try again.
func readSubnetFile(path string) (subnetEnv, error) {
	text, err := files.ReadRegular(path, files.MostOwn)
	if errors.Is(err, fs.ErrNotExist) {
		return subnetEnv{}, types.NewError(types.ErrTryAgainLater, "flanneld has not written "+path+" yet",
			"is flanneld running on this node, and does it hold a subnet? See its log. "+
				"If the file is elsewhere, set subnetFile in the CNI configuration")
	}
	if err != nil {
		return subnetEnv{}, types.NewError(types.ErrIOFailure, "read the subnet file", err.Error())
	}
	env, err := parseSubnetEnv(string(text))
	if err != nil {
		return subnetEnv{}, types.NewError(types.ErrTryAgainLater, fmt.Sprintf("subnet file %s: %v", path, err),
			"flanneld writes the file again when it starts")
	}
	return env, nil
}

// parseSubnetEnv reads the file's text. It skips lines with other names.
func parseSubnetEnv(text string) (subnetEnv, error) {
	if strings.TrimSpace(text) == "" {
		return subnetEnv{}, errors.New("it is empty")
	}
	var env subnetEnv
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !strings.HasPrefix(name, "FLANNEL_") {
			continue
		}
		if !ok {
			return subnetEnv{}, fmt.Errorf("line %q has no value", line)
		}
		if err := env.set(name, value); err != nil {
			return subnetEnv{}, fmt.Errorf("%s: %w", name, err)
		}
		seen[name] = true
	}
	return env, env.complete(seen)
}

func (e *subnetEnv) set(name, value string) (err error) {
	switch name {
	case "FLANNEL_NETWORK":
		return e.addNetworks(cidr.V4, value)
	case "FLANNEL_IPV6_NETWORK":
		return e.addNetworks(cidr.V6, value)
	case "FLANNEL_SUBNET":
		e.subnets[cidr.V4], err = parsePrefix(cidr.V4, value)
	case "FLANNEL_IPV6_SUBNET":
		e.subnets[cidr.V6], err = parsePrefix(cidr.V6, value)
	case "FLANNEL_MTU":
		e.mtu, err = strconv.Atoi(value)
		if err != nil || e.mtu <= 0 {
			return fmt.Errorf("%q is not an MTU", value)
		}
	case "FLANNEL_IPMASQ":
		e.ipMasq = value == "true"
	}
	return err
}

// addNetworks reads a network, or a list of networks separated by commas.
func (e *subnetEnv) addNetworks(f cidr.Family, list string) error {
	for value := range strings.SplitSeq(list, ",") {
		p, err := parsePrefix(f, strings.TrimSpace(value))
		if err != nil {
			return err
		}
		e.networks[f] = append(e.networks[f], p.Masked())
	}
	return nil
}

func parsePrefix(f cidr.Family, value string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(value)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("%q is not an address with a prefix length", value)
	}
	if cidr.FamilyOf(p.Addr()) != f {
		return netip.Prefix{}, fmt.Errorf("%s is not %s", p, f)
	}
	return p, nil
}

// complete returns an error that names the first missing value.
func (e *subnetEnv) complete(seen map[string]bool) error {
	switch {
	case len(e.networks[cidr.V4])+len(e.networks[cidr.V6]) == 0:
		return errors.New("FLANNEL_NETWORK and FLANNEL_IPV6_NETWORK are missing")
	case !e.subnets[cidr.V4].IsValid() && !e.subnets[cidr.V6].IsValid():
		return errors.New("FLANNEL_SUBNET and FLANNEL_IPV6_SUBNET are missing")
	case !seen["FLANNEL_MTU"]:
		return errors.New("FLANNEL_MTU is missing")
	case !seen["FLANNEL_IPMASQ"]:
		return errors.New("FLANNEL_IPMASQ is missing")
	}
	return nil
}
