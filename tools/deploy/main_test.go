package main

import (
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

const chartDir = "../../deploy/chart"

// The manifest that users apply equals the rendered chart.
func TestManifestIsTheChart(t *testing.T) {
	want, err := manifest(chartDir, map[string]any{})
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

// psk is a pre-shared key of WireGuard.
const psk = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="

// flannel puts values under the key that most of them have.
func flannel(values map[string]any) map[string]any { return map[string]any{"flannel": values} }

// valueCase says what a rendered template has to hold.
type valueCase struct {
	name   string
	values map[string]any
	in     string // template
	want   string // part of it
}

func (c valueCase) check(t *testing.T) {
	t.Helper()
	files, err := render(chartDir, c.values)
	if err != nil || !strings.Contains(files[c.in], c.want) {
		t.Errorf("%s: %v, want %s in\n%s", c.name, err, c.want, files[c.in])
	}
}

func TestValues(t *testing.T) {
	for _, c := range []valueCase{
		{"dual stack", map[string]any{"podCidrv6": "fd00:10::/56"}, "configmap", `"EnableIPv6": true`},
		{"IPv6 alone", map[string]any{"podCidr": "", "podCidrv6": "fd00:10::/56"}, "configmap", `"EnableIPv4": false`},
		{"another backend", flannel(map[string]any{"backend": "host-gw", "vni": 7}), "configmap",
			"\"Backend\": {\n        \"Type\": \"host-gw\"\n      }"},
		{"options of vxlan", flannel(map[string]any{"vni": 4096, "backendPort": 4789, "mtu": 1400, "directRouting": true,
			"GBP": true, "txChecksum": "off"}),
			"configmap",
			"\"DirectRouting\": true,\n        \"GBP\": true,\n        \"MTU\": 1400,\n        \"Port\": 4789,\n        " +
				"\"TxChecksum\": \"off\",\n        \"Type\": \"vxlan\",\n        \"VNI\": 4096\n"},
		{"a change of the backend", flannel(map[string]any{"backend": "host-gw",
			"formerly": []any{map[string]any{"Type": "vxlan", "VNI": 7}}}), "configmap",
			"\"Formerly\": [\n        {\n          \"Type\": \"vxlan\",\n          \"VNI\": 7\n        }\n      ]"},
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
		{"a monitor that names nodes", flannel(map[string]any{"podMonitor": map[string]any{"enabled": true}}), "podmonitor",
			"      relabelings:\n        - sourceLabels: [__meta_kubernetes_pod_node_name]\n          targetLabel: instance"},
		{"the monitor's port", flannel(map[string]any{"podMonitor": map[string]any{"enabled": true}}), "daemonset",
			"ports:\n            - name: healthz\n              containerPort: 8081\n"},
		{"no network policies", map[string]any{"netpol": map[string]any{"enabled": false}}, "configmap", "10.244.0.0/16"},
	} {
		c.check(t)
	}
}

// The values that upstream's chart has, and those of the pods.
func TestMoreValues(t *testing.T) {
	for _, c := range []valueCase{
		{"options of wireguard", flannel(map[string]any{"backend": "wireguard", "backendPort": 51900, "backendPortv6": 51901,
			"mtu": 1400, "keepaliveInterval": 25, "tunnelMode": "auto", "psk": psk}), "configmap",
			"\"ListenPort\": 51900,\n        \"ListenPortV6\": 51901,\n        \"MTU\": 1400,\n        " +
				"\"Mode\": \"auto\",\n        \"PSK\": \"" + psk + "\",\n        \"PersistentKeepaliveInterval\": 25,\n        " +
				"\"Type\": \"wireguard\"\n"},
		{"defaults of wireguard", flannel(map[string]any{"backend": "wireguard"}), "configmap",
			"\"Backend\": {\n        \"Type\": \"wireguard\"\n      }"},
		{"the port of udp", flannel(map[string]any{"backend": "udp", "backendPort": 8286}), "configmap",
			"\"Port\": 8286,\n        \"Type\": \"udp\"\n"},
		{"more flags", flannel(map[string]any{"extraArgs": []any{"--iface=eth1"}}), "daemonset",
			"- \"--iface-from-node\"\n            - \"--iface=eth1\"\n            - --healthz-port=8081\n"},
		{"environment", flannel(map[string]any{"extraEnv": []any{map[string]any{"name": "A", "value": "b"}}}), "daemonset",
			"fieldPath: spec.nodeName\n            - name: A\n              value: b\n"},
		{"annotations of pods", flannel(map[string]any{"podAnnotations": map[string]any{"a": "b"}}), "daemonset",
			"\n        a: b\n    spec:\n"},
		{"SELinux", flannel(map[string]any{"seLinuxOptions": map[string]any{"type": "spc_t"}}), "daemonset",
			"type: RuntimeDefault\n        seLinuxOptions:\n          type: spc_t\n"},
		{"affinity", flannel(map[string]any{"affinity": map[string]any{"nodeAffinity": map[string]any{"a": "b"}}}),
			"daemonset", "      affinity:\n        nodeAffinity:\n          a: b\n"},
		{"times of a probe", flannel(map[string]any{"healthz": map[string]any{"port": 9000,
			"livenessProbe": map[string]any{"failureThreshold": 9}}}), "daemonset",
			"port: 9000\n            failureThreshold: 9\n            initialDelaySeconds: 10\n            periodSeconds: 30\n" +
				"            timeoutSeconds: 5\n"},
		{"an own CNI configuration", flannel(map[string]any{"cniConf": `{"name": "x", "plugins": [{"type": "flannel"}]}`}),
			"configmap", "cni-conf.json: |\n    {\"name\": \"x\", \"plugins\": [{\"type\": \"flannel\"}]}\n"},
		{"upstream's image", flannel(map[string]any{"image": map[string]any{"repository": "ghcr.io/flannel-io/flannel",
			"tag": "v0.28.9"}}), "daemonset", "image: ghcr.io/flanneld/flannel:v0.1.0\n"},
		{"upstream's image elsewhere", flannel(map[string]any{"image": map[string]any{"repository": "flannel/flannel"}}),
			notes, "ghcr.io/flanneld/flannel:v0.1.0 runs in its place"},
		{"an image of the plugin, v0.28", flannel(map[string]any{"flannel_cni": map[string]any{"image": 1}}), notes,
			"flannel.flannel_cni has no effect: the CNI plugin is in flannel.image"},
		{"an image of the plugin, v0.27", flannel(map[string]any{"image_cni": map[string]any{"tag": "v1"}}), notes,
			"flannel.image_cni has no effect: the CNI plugin is in flannel.image"},
		{"an image of the plugin, at the top", map[string]any{"flannel_cni": map[string]any{"image": 1}}, notes,
			"\nflannel_cni has no effect: the CNI plugin is in flannel.image"},
		{"no pre-shared key", flannel(map[string]any{"backend": "wireguard", "psk": 0}), "configmap",
			"\"Backend\": {\n        \"Type\": \"wireguard\"\n      }"},
		{"an option of another backend", flannel(map[string]any{"psk": psk}), notes,
			"flannel.psk has no effect: the backend vxlan has no such option"},
	} {
		c.check(t)
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
		{"what needs a shell", flannel(map[string]any{"backend": "extension"}),
			"in a container this flannel has alloc, host-gw, ipip, udp, vxlan, wireguard"},
		{"an unknown mode", flannel(map[string]any{"tunnelMode": "sideways"}), "tunnelMode"},
		{"a short key", flannel(map[string]any{"psk": "secret"}), "psk"},
		{"a blank in an image", flannel(map[string]any{"image": map[string]any{"repository": "a: b"}}), "repository"},
		{"a line in a tag", flannel(map[string]any{"image": map[string]any{"tag": "a\nb: c"}}), "tag"},
		{"no tag", map[string]any{"netpol": map[string]any{"image": map[string]any{"tag": ""}}}, "tag"},
		{"no plugins", flannel(map[string]any{"cniConf": `{"name": "x"}`}), "flannel.cniConf"},
		{"a probe's path", flannel(map[string]any{"healthz": map[string]any{"livenessProbe": map[string]any{"httpGet": 1}}}),
			"httpGet"},
		{"a VNI of 25 bits", flannel(map[string]any{"vni": 1 << 24}), "vni"},
		{"an MTU that is too small", flannel(map[string]any{"mtu": 68}), "mtu"},
		{"a flag without dash", flannel(map[string]any{"args": []any{"--kube-subnet-mgr", "iface=eth1"}}), "args"},
		{"leases in etcd", flannel(map[string]any{"args": []any{"--ip-masq"}}), "no --kube-subnet-mgr"},
		{"a number as key", flannel(map[string]any{"psk": 7}), "psk"},
		{"port -1", flannel(map[string]any{"healthz": map[string]any{"port": -1}}), "healthz"},
		{"no node at a time", flannel(map[string]any{"maxUnavailable": "0%"}), "maxUnavailable"},
	} {
		if _, err := render(chartDir, c.values); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s in it", c.name, err, c.want)
		}
	}
}

// A value that YAML reads as a number, a truth or an end of line arrives as the text that it is.
func TestTextsStayTexts(t *testing.T) {
	values := map[string]any{"flannel": map[string]any{
		"image":             map[string]any{"repository": "registry:5000/flannel", "tag": "1e5", "pullPolicy": "Always"},
		"priorityClassName": "123", "cniBinDir": "/opt/cni: bin", "cniConfDir": "/etc/#cni", "maxUnavailable": "10%",
		"args": []any{"--kube-subnet-mgr", "--iface-regex=^(a|b): #c$"},
	}}
	set := object[appsv1.DaemonSet](t, mustRender(t, values)["daemonset"])
	pod := set.Spec.Template.Spec
	for _, c := range []struct{ name, have, want string }{
		{"image", pod.Containers[0].Image, "registry:5000/flannel:1e5"},
		{"priorityClassName", pod.PriorityClassName, "123"},
		{"cniBinDir", hostPath(pod, "cni-plugin"), "/opt/cni: bin"},
		{"cniConfDir", hostPath(pod, "cni"), "/etc/#cni"},
		{"args", pod.Containers[0].Args[1], "--iface-regex=^(a|b): #c$"},
		{"maxUnavailable", set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String(), "10%"},
	} {
		if c.have != c.want {
			t.Errorf("%s is %q, want %q", c.name, c.have, c.want)
		}
	}
}
