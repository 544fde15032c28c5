package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// upstreamFiles renders the chart with a full values file of upstream's.
func upstreamFiles(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/upstream-values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	files, err := render(chartDir, values)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// object reads a rendered object, in which nothing may be unknown to Kubernetes.
func object[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := yaml.UnmarshalStrict([]byte(text), &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return v
}

// Every value of upstream's chart does what it did there.
func TestUpstreamValuesDoTheSame(t *testing.T) {
	files := upstreamFiles(t)
	pod := object[appsv1.DaemonSet](t, files["daemonset"]).Spec.Template
	flanneld := pod.Spec.Containers[0]
	data := object[corev1.ConfigMap](t, files["configmap"]).Data
	var netconf map[string]any
	if err := json.Unmarshal([]byte(data["net-conf.json"]), &netconf); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name       string
		have, want any
	}{
		{"podCidr, enableNFTables and the options of the backend", netconf, map[string]any{
			"Network": "10.244.0.0/16", "EnableNFTables": true, "Backend": map[string]any{
				"Type": "wireguard", "ListenPort": 51830.0, "ListenPortV6": 51831.0, "MTU": 1400.0, "PSK": psk,
				"PersistentKeepaliveInterval": 25.0}}},
		{"args", flanneld.Args, []string{"--ip-masq", "--kube-subnet-mgr", "--healthz-port=8081"}},
		{"podAnnotations", pod.Annotations["example.com/team"], "network"},
		{"healthz, liveness", []int32{flanneld.LivenessProbe.InitialDelaySeconds, flanneld.LivenessProbe.PeriodSeconds},
			[]int32{20, 40}},
		{"healthz, readiness", []int32{flanneld.ReadinessProbe.InitialDelaySeconds, flanneld.ReadinessProbe.PeriodSeconds},
			[]int32{6, 11}},
		{"tolerations", len(pod.Spec.Tolerations), 2},
		{"resources", flanneld.Resources.Requests.Cpu().String(), "100m"},
		{"cniBinDir", hostPath(pod.Spec, "cni-plugin"), "/usr/libexec/cni"},
		{"cniConfDir", hostPath(pod.Spec, "cni"), "/etc/cni/net.d"},
		{"cniConf", strings.Contains(data["cni-conf.json"], `"hairpinMode": true`), true},
		{"netpol", pod.Spec.Containers[1].Image, "registry.k8s.io/networking/kube-network-policies:v0.7.0"},
		{"netpol.args", pod.Spec.Containers[1].Args, []string{"--hostname-override=$(MY_NODE_NAME)", "--v=2"}},
	} {
		if diff := cmp.Diff(c.want, c.have); diff != "" {
			t.Errorf("%s (-want +have):\n%s", c.name, diff)
		}
	}
}

// The text that Helm prints names the others.
func TestUpstreamValuesAreNamed(t *testing.T) {
	_, have, _ := strings.Cut(upstreamFiles(t)[notes], "Values that mean something else here:\n")
	want := []string{
		"flannel.image names upstream's image: ghcr.io/flanneld/flannel:v0.1.0 runs in its place. " +
			"Set flannel.image to a copy of that one.",
		"flannel.image_cni and flannel_cni have no effect: the CNI plugin is in flannel.image.",
		"flannel.macPrefix has no effect: the backend wireguard has no such option.",
		"flannel.vni has no effect: the backend wireguard has no such option.",
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(have), "\n")); diff != "" {
		t.Error(diff)
	}
}

func hostPath(pod corev1.PodSpec, volume string) string {
	for _, v := range pod.Volumes {
		if v.Name == volume && v.HostPath != nil {
			return v.HostPath.Path
		}
	}
	return ""
}

// Each backend gets what it needs of the host, and no more.
func TestRightsOfBackends(t *testing.T) {
	usual := []string{"/run/flannel", "/var/lib/flannel", "/etc/kube-flannel", "/run/xtables.lock"}
	for backend, mounts := range map[string][]string{
		"vxlan": usual, "host-gw": usual, "ipip": usual, "alloc": usual,
		"udp": append(usual, "/dev/net"), "wireguard": append(usual, "/dev/net"),
	} {
		files, err := render(chartDir, flannel(map[string]any{"backend": backend}))
		if err != nil {
			t.Fatal(err)
		}
		pod := object[appsv1.DaemonSet](t, files["daemonset"]).Spec.Template.Spec
		if len(pod.Containers) != 1 {
			t.Errorf("%s: %d containers", backend, len(pod.Containers))
		}
		c := pod.Containers[0]
		var have []string
		for _, m := range c.VolumeMounts {
			have = append(have, m.MountPath)
		}
		if diff := cmp.Diff(mounts, have); diff != "" {
			t.Errorf("%s, mounts (-want +have):\n%s", backend, diff)
		}
		no, yes := false, true
		want := &corev1.SecurityContext{Privileged: &no, AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"},
				Add: []corev1.Capability{"NET_ADMIN", "NET_RAW"}}}
		if diff := cmp.Diff(want, c.SecurityContext); diff != "" {
			t.Errorf("%s, rights (-want +have):\n%s", backend, diff)
		}
	}
}
