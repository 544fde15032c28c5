package check

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strings"
)

// optionOf names the option of the kernel for each module that a backend may need.
var optionOf = map[string]string{
	"vxlan": "VXLAN", "ipip": "NET_IPIP", "xfrm_user": "XFRM_USER", "esp4": "INET_ESP", "wireguard": "WIREGUARD",
}

// demands are the options that flannel and the usual CNI plugins need with any backend. One of
// each list is enough.
var demands = []struct {
	any     []string
	what    string
	without string // the consequence
}{
	{[]string{"BRIDGE"}, "the bridge of the pods", "the CNI plugin bridge makes no cni0"},
	{[]string{"VETH"}, "the pods' devices", "pods get no device"},
	{[]string{"NFT_MASQ", "NETFILTER_XT_TARGET_MASQUERADE", "IP_NF_TARGET_MASQUERADE"}, "masquerade",
		"--ip-masq does nothing, and pods reach the outside only if other hosts know their subnets"},
	{[]string{"BRIDGE_NETFILTER"}, "br_netfilter",
		"services of kube-proxy, such as DNS, give no answer to a pod next to their own"},
}

// readOptions reads the options with which the kernel was built: the first source that exists.
func (g *gatherer) readOptions(release string) {
	for _, path := range []string{"/proc/config.gz", "/boot/config-" + release, "/lib/modules/" + release + "/config"} {
		data, err := os.ReadFile(g.at(path))
		if err != nil {
			continue // usual: a host has one of them, or none
		}
		if strings.HasSuffix(path, ".gz") {
			data, err = unzipped(data)
		}
		g.note(path, err)
		if options := parseOptions(string(data)); len(options) > 0 {
			g.f.Options, g.f.OptionsFrom = options, path
			return
		}
	}
}

func unzipped(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(r, 16<<20))
}

// parseOptions returns the options that are built in ("y") or modules ("m").
func parseOptions(text string) map[string]string {
	options := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name, is := strings.CutPrefix(name, "CONFIG_"); is && (value == "y" || value == "m") {
			options[name] = value
		}
	}
	return options
}

// byOption returns the state of a module of which the host has no file, by the kernel's options.
func (g *gatherer) byOption(module string) Module {
	switch {
	case g.f.OptionsFrom == "":
		return Unsure
	case g.f.Options[optionOf[module]] == "y":
		return Loaded
	case g.f.Options[optionOf[module]] == "m":
		return Loadable
	}
	return Missing
}

// options judges the options of the kernel that flannel needs with any backend.
func (f *Facts) options() []Finding {
	const topic = "kernel"
	if f.OptionsFrom == "" {
		return []Finding{{Level: Warning, Topic: topic, Remedy: "modprobe configs && zcat /proc/config.gz",
			Text: "its options could not be learnt: this host has neither /proc/config.gz nor the kernel's config in /boot"}}
	}
	var found []Finding
	for _, d := range demands {
		has := false
		for _, option := range d.any {
			has = has || f.Options[option] != ""
		}
		if !has {
			found = append(found, Finding{Level: Warning, Topic: topic, Remedy: "grep CONFIG_" + d.any[0] + " /boot/config-*",
				Text: fmt.Sprintf("it was built without %s (CONFIG_%s): %s; install a kernel that has it",
					d.what, strings.Join(d.any, " or CONFIG_"), d.without)})
		}
	}
	if len(found) == 0 {
		found = []Finding{{Level: OK, Topic: topic,
			Text: "it was built with bridges, veth, masquerade and br_netfilter, says " + f.OptionsFrom}}
	}
	return found
}
