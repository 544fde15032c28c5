package harness

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/flanneld/flannel/core/cidr"
)

// SubnetEnv holds the values that a CNI plugin reads from a subnet file (interop
// 4.1: its variables). The code here is independent of the code that writes it.
type SubnetEnv struct {
	Network [2]netip.Prefix // by family; zero where absent
	Subnet  [2]netip.Prefix // address of the bridge with the subnet's length
	MTU     int
	IPMasq  bool
}

// parseSubnetEnv reads a subnet file, and is as strict as a shell that would
// source it.
func parseSubnetEnv(text string) (SubnetEnv, error) {
	var env SubnetEnv
	var errs []error
	prefix := func(to *netip.Prefix) func(string) error {
		return func(s string) (err error) { *to, err = netip.ParsePrefix(s); return err }
	}
	want := map[string]func(string) error{
		"FLANNEL_NETWORK":      prefix(&env.Network[cidr.V4]),
		"FLANNEL_SUBNET":       prefix(&env.Subnet[cidr.V4]),
		"FLANNEL_IPV6_NETWORK": prefix(&env.Network[cidr.V6]),
		"FLANNEL_IPV6_SUBNET":  prefix(&env.Subnet[cidr.V6]),
		"FLANNEL_MTU":          func(s string) (err error) { env.MTU, err = strconv.Atoi(s); return err },
		"FLANNEL_IPMASQ":       func(s string) (err error) { env.IPMasq, err = strconv.ParseBool(s); return err },
	}
	if !strings.HasSuffix(text, "\n") {
		errs = append(errs, errors.New("the last line has no line end"))
	}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		key, value, _ := strings.Cut(line, "=")
		set, ok := want[key]
		if !ok {
			errs = append(errs, fmt.Errorf("line %q: unknown or repeated", line))
			continue
		}
		delete(want, key)
		if err := set(value); err != nil {
			errs = append(errs, fmt.Errorf("line %q: %w", line, err))
		}
	}
	if env.MTU <= 0 {
		errs = append(errs, errors.New("no FLANNEL_MTU"))
	}
	if !env.Subnet[cidr.V4].IsValid() && !env.Subnet[cidr.V6].IsValid() {
		errs = append(errs, errors.New("no subnet"))
	}
	return env, errors.Join(errs...)
}
