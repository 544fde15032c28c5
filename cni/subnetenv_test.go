package cni

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/flanneld/flannel/core/cidr"
)

// both is the subnet file of a dual-stack node.
const both = "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_IPV6_NETWORK=2001:cafe:42::/56\n" +
	"FLANNEL_IPV6_SUBNET=2001:cafe:42::1/64\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n"

func TestParseSubnetEnv(t *testing.T) {
	env, err := parseSubnetEnv(both)
	if err != nil {
		t.Fatal(err)
	}
	if env.subnets[cidr.V4] != netip.MustParsePrefix("10.5.72.1/24") ||
		env.subnets[cidr.V6] != netip.MustParsePrefix("2001:cafe:42::1/64") ||
		len(env.networks[cidr.V4]) != 1 || len(env.networks[cidr.V6]) != 1 || env.mtu != 1450 || !env.ipMasq {
		t.Errorf("got %+v", env)
	}
}

func TestParseSubnetEnvTolerates(t *testing.T) {
	for name, text := range map[string]string{
		"an unknown name":    both + "FLANNEL_COLOUR=blue\nPATH\n",
		"CRLF":               strings.ReplaceAll(both, "\n", "\r\n"),
		"no last newline":    strings.TrimSpace(both),
		"a list of networks": strings.Replace(both, "10.5.0.0/16", "10.5.0.0/16, 10.6.0.0/16", 1),
		"only IPv4": "FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\n" +
			"FLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n",
		"a masquerade of yes": strings.Replace(both, "=true", "=yes", 1),
	} {
		if _, err := parseSubnetEnv(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseSubnetEnvErrors(t *testing.T) {
	without := func(name string) string {
		var kept []string
		for line := range strings.Lines(both) {
			if !strings.HasPrefix(line, name+"=") {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
	for _, c := range []struct{ text, want string }{
		{"", "it is empty"},
		{"\n \n", "it is empty"},
		{"FLANNEL_SUBNET\n" + both, `line "FLANNEL_SUBNET" has no value`},
		{without("FLANNEL_MTU"), "FLANNEL_MTU is missing"},
		{without("FLANNEL_IPMASQ"), "FLANNEL_IPMASQ is missing"},
		{"FLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n", "FLANNEL_NETWORK and FLANNEL_IPV6_NETWORK are missing"},
		{"FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=true\n",
			"FLANNEL_SUBNET and FLANNEL_IPV6_SUBNET are missing"},
		{"FLANNEL_SUBNET=10.5.72.1", `FLANNEL_SUBNET: "10.5.72.1" is not an address with a prefix length`},
		{"FLANNEL_SUBNET=fd00::1/64", "FLANNEL_SUBNET: fd00::1/64 is not IPv4"},
		{"FLANNEL_MTU=big", `FLANNEL_MTU: "big" is not an MTU`},
		{"FLANNEL_MTU=-1", `FLANNEL_MTU: "-1" is not an MTU`},
	} {
		if _, err := parseSubnetEnv(c.text); err == nil || err.Error() != c.want {
			t.Errorf("%q\n got %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestReadSubnetFileSaysWhatToDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "subnet.env")
	for _, c := range []struct {
		text *string
		msg  string
	}{
		{nil, "flanneld has not written " + path + " yet"},
		{new(string), "subnet file " + path + ": it is empty"},
	} {
		if c.text != nil {
			if err := os.WriteFile(path, []byte(*c.text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		_, err := readSubnetFile(path)
		var e *types.Error
		if !errors.As(err, &e) || e.Code != types.ErrTryAgainLater || e.Msg != c.msg || e.Details == "" {
			t.Errorf("got %#v, want %q", err, c.msg)
		}
	}
}

func FuzzParseSubnetEnv(f *testing.F) {
	f.Add(both)
	f.Add("FLANNEL_SUBNET")
	f.Add("FLANNEL_NETWORK=,\n")
	f.Fuzz(func(t *testing.T, text string) {
		env, err := parseSubnetEnv(text)
		if err != nil {
			return
		}
		if env.mtu <= 0 || !env.subnets[0].IsValid() && !env.subnets[1].IsValid() ||
			len(env.networks[0])+len(env.networks[1]) == 0 {
			t.Errorf("%q is incomplete and passed: %+v", text, env)
		}
	})
}
