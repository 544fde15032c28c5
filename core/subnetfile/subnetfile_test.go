package subnetfile

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/flanneld/flannel/core/config"
	"github.com/flanneld/flannel/core/lease"
)

var (
	net4 = config.Range{Network: netip.MustParsePrefix("10.5.0.0/16")}
	net6 = config.Range{Network: netip.MustParsePrefix("2001:cafe::/32")}
	sub4 = netip.MustParsePrefix("10.5.72.0/24")
	sub6 = netip.MustParsePrefix("2001:cafe:42::/64")
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		name string
		file File
		want string
	}{
		{
			"IPv4", File{Network: config.Network{V4: net4}, Subnet: lease.Key{V4: sub4}, MTU: 1450},
			"FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n",
		},
		{
			"dual", File{Network: config.Network{V4: net4, V6: net6}, Subnet: lease.Key{V4: sub4, V6: sub6}, MTU: 1430,
				IPMasq: true},
			"FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\n" +
				"FLANNEL_IPV6_NETWORK=2001:cafe::/32\nFLANNEL_IPV6_SUBNET=2001:cafe:42::1/64\nFLANNEL_MTU=1430\n" +
				"FLANNEL_IPMASQ=true\n",
		},
		{
			"IPv6", File{Network: config.Network{V6: net6}, Subnet: lease.Key{V6: sub6}, MTU: 1430},
			"FLANNEL_IPV6_NETWORK=2001:cafe::/32\nFLANNEL_IPV6_SUBNET=2001:cafe:42::1/64\nFLANNEL_MTU=1430\n" +
				"FLANNEL_IPMASQ=false\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := c.file.Format()
			if string(text) != c.want {
				t.Errorf("got\n%s\nwant\n%s", text, c.want)
			}
			if got := Previous(text); got != c.file.Subnet {
				t.Errorf("reads back as %v, want %v", got, c.file.Subnet)
			}
		})
	}
}

func TestPrevious(t *testing.T) {
	only4, both := lease.Key{V4: sub4}, lease.Key{V4: sub4, V6: sub6}
	for _, c := range []struct {
		name, text string
		want       lease.Key
	}{
		{"empty", "", lease.Key{}},
		{"other lines", "FLANNEL_MTU=1450\nFLANNEL_NETWORK=10.5.0.0/16\n", lease.Key{}},
		{"no newline at the end", "FLANNEL_SUBNET=10.5.72.1/24", only4},
		{"line ends of another system", "FLANNEL_SUBNET=10.5.72.1/24\r\nFLANNEL_IPV6_SUBNET=2001:cafe:42::1/64\r\n", both},
		{"base instead of base+1", "FLANNEL_SUBNET=10.5.72.0/24\n", only4},
		{"last one counts", "FLANNEL_SUBNET=10.5.71.1/24\nFLANNEL_SUBNET=10.5.72.1/24\n", only4},
		{"a list", "FLANNEL_SUBNET=10.5.72.1/24,10.5.73.1/24\n", lease.Key{}},
		{"a list in one family", "FLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_IPV6_SUBNET=2001:cafe:42::1/64,2001:cafe:43::1/64\n",
			only4},
		{"no value", "FLANNEL_SUBNET\nFLANNEL_SUBNET=\n", lease.Key{}},
		{"no length", "FLANNEL_SUBNET=10.5.72.1\n", lease.Key{}},
		{"not a subnet", "FLANNEL_SUBNET=10.5.72.1/33\n", lease.Key{}},
		{"a single address", "FLANNEL_SUBNET=10.5.72.1/32\nFLANNEL_IPV6_SUBNET=fd00::1/128\n", lease.Key{}},
		{"everything", "FLANNEL_SUBNET=0.0.0.0/0\nFLANNEL_IPV6_SUBNET=::/0\n", lease.Key{}},
		{"families swapped", "FLANNEL_SUBNET=2001:cafe:42::1/64\nFLANNEL_IPV6_SUBNET=10.5.72.1/24\n", lease.Key{}},
		{"IPv4-mapped", "FLANNEL_IPV6_SUBNET=::ffff:10.5.72.1/120\n", lease.Key{}},
		{"a longer name", "XFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_SUBNETS=10.5.72.1/24\n", lease.Key{}},
		{"garbage", "\x00\xff=\n====\n", lease.Key{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Previous([]byte(c.text)); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{
		"FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\n":               "[10.5.0.0/16]",
		"FLANNEL_IPV6_NETWORK=2001:cafe:42::/56\nFLANNEL_NETWORK=10.5.0.0/16\n":    "[10.5.0.0/16 2001:cafe:42::/56]",
		"FLANNEL_NETWORK=10.5.0.0/16,10.6.0.0/16\n":                                "[10.5.0.0/16 10.6.0.0/16]",
		"FLANNEL_NETWORK=10.5.0.0/16,nonsense\nFLANNEL_IPV6_NETWORK=10.7.0.0/16\n": "[10.5.0.0/16]",
		"FLANNEL_NETWORK=0.0.0.0/0\nFLANNEL_NETWORK\n\x00":                         "[]",
		"": "[]",
	} {
		if got := fmt.Sprint(Networks([]byte(text))); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func FuzzPrevious(f *testing.F) {
	f.Add([]byte("FLANNEL_NETWORK=10.5.0.0/16\nFLANNEL_SUBNET=10.5.72.1/24\nFLANNEL_MTU=1450\nFLANNEL_IPMASQ=false\n"))
	f.Add([]byte("FLANNEL_SUBNET=255.255.255.255/31\nFLANNEL_IPV6_SUBNET=2001:cafe:42::1/64"))
	f.Add([]byte("FLANNEL_SUBNET=10.5.72.1/24,10.5.73.1/24"))
	f.Fuzz(func(t *testing.T, text []byte) {
		k := Previous(text)
		if !k.IsValid() {
			return
		}
		if back, err := lease.ParseKey(k.String()); err != nil || back != k {
			t.Fatalf("%v is no key of a lease: %v, %v", k, back, err)
		}
		file := File{Subnet: k, Network: config.Network{V4: config.Range{Network: k.V4}, V6: config.Range{Network: k.V6}}}
		if again := Previous(file.Format()); again != k {
			t.Fatalf("reads back as %v, want %v", again, k)
		}
	})
}
