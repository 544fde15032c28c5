package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// free are the objects whose members the chart hands on. Null removes them, as it does in every chart.
var free = []string{"flannel.resources", "flannel.nodeSelector", "flannel.healthz.livenessProbe.",
	"flannel.healthz.readinessProbe.", "netpol.resources"}

// Null for any value of values.yaml, or for a whole section, renders what the default renders,
// removes a free object, or is refused with an error that names the value.
func TestNullIsTheDefaultOrRefused(t *testing.T) {
	for _, name := range names(t, "", defaults(t)) {
		for _, set := range []map[string]string{
			{},
			{"netpol.enabled": "true", "podCidrv6": "fd00:10::/56"},
			{"flannel.backend": "wireguard", "namespace.create": "true"},
			{"flannel.backend": "host-gw", "flannel.podMonitor.enabled": "true"},
		} {
			checkNull(t, name, set)
		}
	}
}

// checkNull renders with a null among other values.
func checkNull(t *testing.T, name string, set map[string]string) {
	t.Helper()
	base := defaults(t)
	for other, value := range set {
		if !strings.HasPrefix(other+".", name+".") {
			var v any
			if err := yaml.Unmarshal([]byte(value), &v); err != nil {
				t.Fatal(err)
			}
			put(base, other, v)
		}
	}
	want, err := render(chartDir, base)
	if err != nil {
		t.Fatal(err)
	}
	put(base, name, nil)
	have, err := render(chartDir, base)
	if err != nil {
		for _, part := range append(strings.Split(name, "."), "missing propert") {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("null for %s: the error lacks %s: %v", name, part, err)
			}
		}
		return
	}
	if isFree(name) {
		for file, text := range have {
			want[file] = only(want[file], text)
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("null for %s beside %v renders something else (-default +null):\n%s", name, set, diff)
	}
	object[appsv1.DaemonSet](t, have["daemonset"])
	object[corev1.ConfigMap](t, have["configmap"])
}

// only returns the lines of a text that another text has, too.
func only(text, other string) string {
	var kept strings.Builder
	rest := other
	for line := range strings.Lines(text) {
		if after, ok := strings.CutPrefix(rest, line); ok {
			rest = after
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func isFree(name string) bool {
	for _, prefix := range free {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// defaults reads values.yaml.
func defaults(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile(chartDir + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// names returns the path of every section and value, with dots.
func names(t *testing.T, prefix string, in map[string]any) []string {
	t.Helper()
	var all []string
	for name, value := range in {
		all = append(all, prefix+name)
		if section, ok := value.(map[string]any); ok {
			all = append(all, names(t, prefix+name+".", section)...)
		}
	}
	return all
}

// put sets the value at a path. The label kubernetes.io/os is the only name with a dot.
func put(in map[string]any, path string, value any) {
	name, rest, deeper := strings.Cut(path, ".")
	if _, whole := in[path]; whole || !deeper {
		in[path] = value
		return
	}
	put(in[name].(map[string]any), rest, value)
}
