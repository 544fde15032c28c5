package main

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chartutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// upstreamValues reads values files of testdata, each of which overrides those before it, as with helm's -f.
func upstreamValues(t *testing.T, names ...string) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, name := range names {
		text, err := os.ReadFile("testdata/upstream-" + name + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		var values map[string]any
		if err := yaml.Unmarshal(text, &values); err != nil {
			t.Fatal(err)
		}
		all = chartutil.MergeTables(values, all)
	}
	return all
}

// mustRender renders the chart with values that it has to accept.
func mustRender(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	files, err := render(chartDir, values)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// netconf reads the network config of rendered files.
func netconf(t *testing.T, files map[string]string) map[string]any {
	t.Helper()
	var conf map[string]any
	data := object[corev1.ConfigMap](t, files["configmap"]).Data
	if err := json.Unmarshal([]byte(data["net-conf.json"]), &conf); err != nil {
		t.Fatal(err)
	}
	return conf
}

// remarks returns the lines of the text that Helm prints about values of upstream's.
func remarks(files map[string]string) []string {
	_, lines, _ := strings.Cut(files[notes], "Values that mean something else here:\n")
	return strings.Split(strings.TrimSpace(lines), "\n")
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

// Upstream's values file as it is makes upstream's objects.
func TestUpstreamDefaults(t *testing.T) {
	files := mustRender(t, upstreamValues(t, "values"))
	pod := object[appsv1.DaemonSet](t, files["daemonset"]).Spec.Template.Spec
	flanneld := pod.Containers[0]
	for _, c := range []struct {
		name       string
		have, want any
	}{
		{"net-conf.json", netconf(t, files), map[string]any{
			"Network": "10.244.0.0/16", "EnableNFTables": false, "Backend": map[string]any{"Type": "vxlan"}}},
		{"args", flanneld.Args, []string{"--ip-masq", "--kube-subnet-mgr", "--healthz-port=8081"}},
		{"healthz, liveness", []int32{flanneld.LivenessProbe.InitialDelaySeconds, flanneld.LivenessProbe.PeriodSeconds},
			[]int32{10, 30}},
		{"healthz, readiness", []int32{flanneld.ReadinessProbe.InitialDelaySeconds, flanneld.ReadinessProbe.PeriodSeconds},
			[]int32{5, 10}},
		{"tolerations", len(pod.Tolerations), 2},
		{"cniBinDir", hostPath(pod, "cni-plugin"), "/opt/cni/bin"},
		{"cniConfDir", hostPath(pod, "cni"), "/etc/cni/net.d"},
		{"netpol", len(pod.Containers), 1},
		{"remarks", remarks(files), []string{
			"flannel.image names upstream's image: ghcr.io/flanneld/flannel:v0.1.0 runs in its place. " +
				"Set flannel.image to a copy of that one.",
			"flannel.flannel_cni has no effect: the CNI plugin is in flannel.image.",
		}},
	} {
		if diff := cmp.Diff(c.want, c.have); diff != "" {
			t.Errorf("%s (-want +have):\n%s", c.name, diff)
		}
	}
}

// The sidecar is the one that upstream's chart has.
func TestNetpolIsUpstreams(t *testing.T) {
	theirs, ours := upstreamValues(t, "values")["netpol"], defaults(t)["netpol"].(map[string]any)
	delete(ours, "resources") // these two are ours
	delete(ours["image"].(map[string]any), "pullPolicy")
	if diff := cmp.Diff(theirs, any(ours)); diff != "" {
		t.Errorf("netpol (-upstream +ours):\n%s", diff)
	}
}

// The values that are comments in upstream's file may be uncommented there.
func TestUpstreamOptions(t *testing.T) {
	values := upstreamValues(t, "values", "options")
	want := map[string]any{"Type": "vxlan", "MTU": 1500.0, "MacPrefix": "0E-2A"}
	files := mustRender(t, values)
	if diff := cmp.Diff(want, netconf(t, files)["Backend"]); diff != "" {
		t.Errorf("vxlan (-want +have):\n%s", diff)
	}
	for _, line := range remarks(files) {
		if strings.Contains(line, "no such option") {
			t.Errorf("default of an option: %s", line)
		}
	}
	put(values, "flannel.backend", "wireguard")
	want = map[string]any{"Type": "wireguard", "MTU": 1500.0} // psk: 0 is no key
	if diff := cmp.Diff(want, netconf(t, mustRender(t, values))["Backend"]); diff != "" {
		t.Errorf("wireguard (-want +have):\n%s", diff)
	}
}

// unused are the values of upstream's file that change only the text for people, if anything.
var unused = []string{"flannel.image.tag", "flannel.flannel_cni.image.repository", "flannel.flannel_cni.image.tag"}

// Every value of upstream's file that is set to another one changes what is rendered.
func TestEachUpstreamValueCounts(t *testing.T) {
	changed := upstreamValues(t, "changed")
	for _, name := range leaves("", upstreamValues(t, "values", "options")) {
		other, ok := at(changed, name)
		if !ok {
			t.Errorf("testdata/upstream-changed.yaml has no %s", name)
			continue
		}
		counts := slices.Contains(unused, name)
		for _, backend := range []string{"vxlan", "wireguard"} {
			values := upstreamValues(t, "values", "options")
			put(values, "netpol.enabled", name != "netpol.enabled")
			put(values, "flannel.backend", backend)
			before := mustRender(t, values)
			put(values, name, other)
			after := mustRender(t, values)
			delete(before, notes)
			delete(after, notes)
			counts = counts || !maps.Equal(before, after)
		}
		if !counts {
			t.Errorf("%s: %v has no effect", name, other)
		}
	}
}

// The options of wireguard get to the config.
func TestUpstreamOptionsOfWireGuard(t *testing.T) {
	files := mustRender(t, upstreamValues(t, "values", "options", "changed"))
	want := map[string]any{"Network": "10.42.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:10:42::/56",
		"EnableNFTables": true, "Backend": map[string]any{"Type": "wireguard", "ListenPort": 51830.0, "ListenPortV6": 51831.0,
			"MTU": 1400.0, "PSK": psk, "PersistentKeepaliveInterval": 25.0, "Mode": "auto"}}
	if diff := cmp.Diff(want, netconf(t, files)); diff != "" {
		t.Errorf("net-conf.json (-want +have):\n%s", diff)
	}
	lines := []string{
		"flannel.flannel_cni has no effect: the CNI plugin is in flannel.image.",
		"flannel.healthz.port is 0: kubelet does not see whether a daemon works, and an update does not wait for it.",
		"flannel.GBP has no effect: the backend wireguard has no such option.",
		"flannel.directRouting has no effect: the backend wireguard has no such option.",
		"flannel.macPrefix has no effect: the backend wireguard has no such option.",
		"flannel.vni has no effect: the backend wireguard has no such option.",
	}
	if diff := cmp.Diff(lines, remarks(files)); diff != "" {
		t.Errorf("remarks (-want +have):\n%s", diff)
	}
}

// Without a port nothing asks for the health of a daemon.
func TestHealthzPort0(t *testing.T) {
	off := map[string]any{"port": 0}
	files := mustRender(t, flannel(map[string]any{"healthz": off}))
	c := object[appsv1.DaemonSet](t, files["daemonset"]).Spec.Template.Spec.Containers[0]
	if c.LivenessProbe != nil || c.ReadinessProbe != nil || len(c.Ports) > 0 {
		t.Errorf("probes %v and %v, ports %v", c.LivenessProbe, c.ReadinessProbe, c.Ports)
	}
	if diff := cmp.Diff([]string{"--ip-masq", "--kube-subnet-mgr", "--iface-from-node"}, c.Args); diff != "" {
		t.Errorf("arguments (-want +have):\n%s", diff)
	}
	_, err := render(chartDir, flannel(map[string]any{"healthz": off, "podMonitor": map[string]any{"enabled": true}}))
	if err == nil || !strings.Contains(err.Error(), "flannel.healthz.port is 0") {
		t.Errorf("a PodMonitor without a port: %v", err)
	}
}

// leaves returns the path of every value that is no section.
func leaves(prefix string, in map[string]any) []string {
	var all []string
	for name, value := range in {
		if section, ok := value.(map[string]any); ok && len(section) > 0 {
			all = append(all, leaves(prefix+name+".", section)...)
		} else {
			all = append(all, prefix+name)
		}
	}
	return all
}

// at returns the value at a path.
func at(in map[string]any, path string) (any, bool) {
	name, rest, deeper := strings.Cut(path, ".")
	if !deeper {
		value, ok := in[name]
		return value, ok
	}
	section, _ := in[name].(map[string]any)
	return at(section, rest)
}

func hostPath(pod corev1.PodSpec, volume string) string {
	for _, v := range pod.Volumes {
		if v.Name == volume && v.HostPath != nil {
			return v.HostPath.Path
		}
	}
	return ""
}

// offered returns the backends that the chart accepts.
func offered(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(chartDir + "/templates/_backends.tpl")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), `{{- define "flannel.backends" -}}`)
	list, _, _ := strings.Cut(rest, "{{- end -}}")
	var backends map[string]any
	if err := json.Unmarshal([]byte(list), &backends); err != nil || len(backends) == 0 {
		t.Fatalf("backends of the chart: %v in\n%s", err, list)
	}
	return slices.Sorted(maps.Keys(backends))
}

// Each backend gets what it needs of the host, and no more.
func TestRightsOfBackends(t *testing.T) {
	usual := []string{"/run/flannel", "/var/lib/flannel", "/etc/kube-flannel", "/run/xtables.lock"}
	wanted := map[string][]string{
		"vxlan": usual, "host-gw": usual, "ipip": usual, "alloc": usual,
		"udp": append(usual, "/dev/net"), "wireguard": append(usual, "/dev/net"),
	}
	for _, backend := range offered(t) {
		mounts, ok := wanted[backend]
		if !ok {
			t.Errorf("%s: say here what it needs of the host", backend)
			continue
		}
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
