package main

import (
	"os"
	"strings"
	"testing"
)

const chartDir = "../../deploy/chart"

// What users apply is what the chart makes.
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
		t.Error("deploy/kube-flannel.yml is not what deploy/chart makes: run make manifest")
	}
}

func TestValues(t *testing.T) {
	for _, c := range []struct {
		name   string
		values map[string]any
		in     string // template
		want   string // part of it
	}{
		{"dual stack", map[string]any{"podCidrv6": "fd00:10::/56"}, "configmap", `"EnableIPv6": true`},
		{"IPv6 alone", map[string]any{"podCidr": "", "podCidrv6": "fd00:10::/56"}, "configmap", `"EnableIPv4": false`},
		{"another backend", map[string]any{"backend": map[string]any{"Type": "host-gw"}}, "configmap", `"Type": "host-gw"`},
		{"a flag", map[string]any{"args": []any{"--iface=eth1"}}, "daemonset", `- "--iface=eth1"`},
		{"an image", map[string]any{"image": map[string]any{"tag": "v9"}}, "daemonset", "image: ghcr.io/flanneld/flannel:v9"},
	} {
		files, err := render(chartDir, c.values)
		if err != nil || !strings.Contains(files[c.in], c.want) {
			t.Errorf("%s: %v, want %s in\n%s", c.name, err, c.want, files[c.in])
		}
	}
}

func TestBadValuesAreRefused(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"no network":          {"podCidr": ""},
		"a misspelt value":    {"podCIDR": "10.0.0.0/8"},
		"no CIDR":             {"podCidr": "10.244.0.0"},
		"an unknown backend":  {"backend": map[string]any{"Type": "carrier-pigeon"}},
		"what needs a device": {"backend": map[string]any{"Type": "udp"}},
		"a flag without dash": {"args": []any{"iface=eth1"}},
		"port 0":              {"healthzPort": 0},
	} {
		if _, err := render(chartDir, values); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
