package check

import (
	"bytes"
	"compress/gzip"
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// gzipped compresses a text as the kernel does its config.
func gzipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The options of the kernel come from the running kernel, or from the file beside it. They also tell which modules it
// has where no list of modules does. Without a source, check says so.
func TestOptions(t *testing.T) {
	const full = "CONFIG_BRIDGE=m\nCONFIG_VETH=y\nCONFIG_NFT_MASQ=m\nCONFIG_BRIDGE_NETFILTER=m\nCONFIG_VXLAN=m\n" +
		"CONFIG_WIREGUARD=y\n# CONFIG_NET_IPIP is not set\nCONFIG_HZ=250\n"
	const poor = "CONFIG_BRIDGE=y\nCONFIG_VETH=y\n# CONFIG_NFT_MASQ is not set\nCONFIG_IP_NF_TARGET_MASQUERADE=m\n"
	well := func(from string) string {
		return "ok kernel: it was built with bridges, veth, masquerade and br_netfilter, says " + from + " # \n"
	}
	for _, c := range []struct {
		name  string
		files map[string]string
		vxlan Module
		want  string
	}{
		{"of the running kernel", map[string]string{"proc/config.gz": gzipped(t, full), "boot/config-6.1.0": poor}, Loadable,
			well("/proc/config.gz")},
		{"beside it", map[string]string{"boot/config-6.1.0": full}, Loadable, well("/boot/config-6.1.0")},
		{"of another kernel", map[string]string{"boot/config-5.0.0": full}, Unsure,
			"warning kernel: its options could not be learnt: this host has neither /proc/config.gz nor the kernel's config " +
				"in /boot # modprobe configs && zcat /proc/config.gz\n"},
		{"one is missing", map[string]string{"lib/modules/6.1.0/config": poor}, Missing,
			"warning kernel: it was built without br_netfilter (CONFIG_BRIDGE_NETFILTER): services of kube-proxy, such as " +
				"DNS, give no answer to a pod next to their own; install a kernel that has it " +
				"# grep CONFIG_BRIDGE_NETFILTER /boot/config-*\n"},
		{"a damaged file, and a good one", map[string]string{"proc/config.gz": "no gzip", "boot/config-6.1.0": full},
			Loadable, well("/boot/config-6.1.0")},
	} {
		c.files["proc/sys/kernel/osrelease"] = "6.1.0\n"
		f := Gather(t.Context(), Sources{
			Root: tree(t, c.files), SubnetFile: "/run/flannel/subnet.env", CNIConf: "/etc/cni/net.d",
			Daemons: func() ([]int, error) { return nil, nil },
			Time:    func(context.Context) (time.Time, error) { return time.Now(), nil },
		})
		if d := cmp.Diff(c.want, told(f.options(), nil)); d != "" || f.Modules["vxlan"] != c.vxlan {
			t.Errorf("%s: module vxlan %s, want %s (-want +got):\n%s", c.name, f.Modules["vxlan"], c.vxlan, d)
		}
	}
}
