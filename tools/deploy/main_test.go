package main

import (
	"os"
	"strings"
	"testing"
)

const chartDir = "../../deploy/chart"

// The manifest that users apply equals the rendered chart.
func TestManifestIsTheChart(t *testing.T) {
	want, err := manifest(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../deploy/kube-flannel.yml")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Error("deploy/kube-flannel.yml differs from deploy/chart: run make manifest")
	}
}

// flannel puts values under the key that most of them have.
func flannel(values map[string]any) map[string]any { return map[string]any{"flannel": values} }

func TestValues(t *testing.T) {
	for _, c := range []struct {
		name   string
		values map[string]any
		in     string // template
		want   string // part of it
	}{
		{"dual stack", map[string]any{"podCidrv6": "fd00:10::/56"}, "configmap", `"EnableIPv6": true`},
		{"IPv6 alone", map[string]any{"podCidr": "", "podCidrv6": "fd00:10::/56"}, "configmap", `"EnableIPv4": false`},
		{"another backend", flannel(map[string]any{"backend": "host-gw", "vni": 7}), "configmap",
			"\"Backend\": {\n        \"Type\": \"host-gw\"\n      }"},
		{"options of vxlan", flannel(map[string]any{"vni": 4096, "backendPort": 4789, "mtu": 1400, "directRouting": true,
			"GBP": true, "txChecksum": "off"}),
			"configmap",
			"\"DirectRouting\": true,\n        \"GBP\": true,\n        \"MTU\": 1400,\n        \"Port\": 4789,\n        " +
				"\"TxChecksum\": \"off\",\n        \"Type\": \"vxlan\",\n        \"VNI\": 4096\n"},
		{"iptables", flannel(map[string]any{"enableNFTables": false}), "configmap", `"EnableNFTables": false`},
		{"a flag", flannel(map[string]any{"args": []any{"--kube-subnet-mgr", "--iface=eth1"}}), "daemonset",
			"args:\n            - \"--kube-subnet-mgr\"\n            - \"--iface=eth1\"\n            - --healthz-port=8081\n"},
		{"an image", flannel(map[string]any{"image": map[string]any{"repository": "registry.local/flannel", "tag": "v9"}}),
			"daemonset",
			"image: registry.local/flannel:v9"},
		{"a pull secret",
			map[string]any{"global": map[string]any{"imagePullSecrets": []any{map[string]any{"name": "key"}}}},
			"daemonset",
			"imagePullSecrets:\n        - name: key"},
		{"directories", flannel(map[string]any{"cniBinDir": "/usr/libexec/cni"}), "daemonset", "path: /usr/libexec/cni"},
		{"foreign CNI configuration", flannel(map[string]any{"skipCNIConfigInstallation": true}), "daemonset",
			"args: [--install-cni, --cni-conf=]"},
		{"fewer tolerations", flannel(map[string]any{"tolerations": []any{map[string]any{"key": "a",
			"operator": "Exists"}}}), "daemonset",
			"tolerations:\n        - key: a\n          operator: Exists\n      sec"},
		{"nothing global", map[string]any{"global": nil}, "daemonset",
			"priorityClassName: system-node-critical\n      nodeSelector:"},
		{"a copy of the image",
			flannel(map[string]any{"image": map[string]any{"repository": "registry.local/flannel/flannel"}}), "daemonset",
			"image: registry.local/flannel/flannel:v0.1.0"},
		{"a monitor", flannel(map[string]any{"podMonitor": map[string]any{"enabled": true,
			"labels": map[string]any{"release": "prometheus"}}}), "podmonitor",
			"release: prometheus\nspec:\n  selector:\n    matchLabels:\n      app: flannel\n" +
				"  podMetricsEndpoints:\n    - port: healthz\n      interval: 30s"},
		{"the monitor's port", flannel(map[string]any{"podMonitor": map[string]any{"enabled": true}}), "daemonset",
			"ports:\n            - name: healthz\n              containerPort: 8081\n"},
		{"no network policies", map[string]any{"netpol": map[string]any{"enabled": false}}, "configmap", "10.244.0.0/16"},
	} {
		files, err := render(chartDir, c.values)
		if err != nil || !strings.Contains(files[c.in], c.want) {
			t.Errorf("%s: %v, want %s in\n%s", c.name, err, c.want, files[c.in])
		}
	}
}

func TestBadValuesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		values map[string]any
		want   string // part of the error
	}{
		{"no network", map[string]any{"podCidr": ""}, "podCidr"},
		{"a misspelt value", map[string]any{"podCIDR": "10.0.0.0/8"}, "podCIDR"},
		{"no CIDR", map[string]any{"podCidr": "10.244.0.0"}, "podCidr"},
		{"no address", map[string]any{"podCidr": "10.244.0.256/16"}, "podCidr"},
		{"no length", map[string]any{"podCidr": "10.244.0.0/33"}, "podCidr"},
		{"the wrong family", map[string]any{"podCidrv6": "10.244.0.0/16"}, "podCidrv6"},
		{"an unknown backend", flannel(map[string]any{"backend": "carrier-pigeon"}), `flannel.backend is "carrier-pigeon"`},
		{"what needs a device", flannel(map[string]any{"backend": "udp"}), `flannel.backend is "udp"`},
		{"an option of wireguard", flannel(map[string]any{"tunnelMode": "auto"}), "tunnelMode"},
		{"a VNI of 25 bits", flannel(map[string]any{"vni": 1 << 24}), "vni"},
		{"an MTU that is too small", flannel(map[string]any{"mtu": 68}), "mtu"},
		{"a flag without dash", flannel(map[string]any{"args": []any{"--kube-subnet-mgr", "iface=eth1"}}), "args"},
		{"leases in etcd", flannel(map[string]any{"args": []any{"--ip-masq"}}), "no --kube-subnet-mgr"},
		{"port 0", flannel(map[string]any{"healthzPort": 0}), "healthzPort"},
		{"no node at a time", flannel(map[string]any{"maxUnavailable": "0%"}), "maxUnavailable"},
		{"upstream's image", flannel(map[string]any{"image": map[string]any{"repository": "ghcr.io/flannel-io/flannel"}}),
			"upstream's image"},
		{"upstream's image elsewhere", flannel(map[string]any{"image": map[string]any{"repository": "flannel/flannel"}}),
			"upstream's image"},
		{"an image of the plugin", flannel(map[string]any{"image_cni": map[string]any{"tag": "v1"}}),
			"the CNI plugin is in flannel.image"},
		{"network policies", map[string]any{"netpol": map[string]any{"enabled": true}}, "netpol.enabled"},
	} {
		if _, err := render(chartDir, c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s in it", c.name, err, c.want)
		}
	}
}
