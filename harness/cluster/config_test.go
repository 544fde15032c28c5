package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestManifestNamesOurImage checks that flannel's DaemonSet names the image that the cluster
// builds, so that no node pulls one.
func TestManifestNamesOurImage(t *testing.T) {
	text, err := os.ReadFile("../../deploy/kube-flannel.yml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "image: "+FlannelImage+"\n") {
		t.Errorf("deploy/kube-flannel.yml does not use %s", FlannelImage)
	}
	if !strings.Contains(string(text), `"Network": "`+podCIDRs[0]+`"`) {
		t.Errorf("deploy/kube-flannel.yml has another network than %s", podCIDRs[0])
	}
}

// TestNetpolImageHasItsModulesVersion checks that the image of the sidecar for policies is named after
// the version that is built, and that it holds the program where the chart starts it.
func TestNetpolImageHasItsModulesVersion(t *testing.T) {
	_, version, _ := strings.Cut(netpolImage, ":")
	for file, want := range map[string]string{
		"tools/netpol/go.mod":                "sigs.k8s.io/kube-network-policies " + version,
		"hack/cluster-programs":              "$cache/roots.new/netpol/bin/netpol\"\n",
		"deploy/chart/templates/_netpol.tpl": "command: [" + stockImages("")["netpol"].Cmd[0] + "]\n",
		"deploy/chart/values.yaml":           "repository: " + strings.TrimSuffix(netpolImage, ":"+version) + "\n",
	} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q", file, want)
		}
	}
	if want := programsDir + "/images/netpol.tar"; !slices.Contains((&Cluster{}).archives(), want) {
		t.Errorf("the nodes do not load %s", want)
	}
}

// TestFlannelsFilesBelongToNoProcess checks that deploy/Dockerfile gives all files that it copies into the image to the
// same user as the cluster does.
func TestFlannelsFilesBelongToNoProcess(t *testing.T) {
	text, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	image := string(text)[strings.LastIndex(string(text), "\nFROM "):]
	copies := 0
	for line := range strings.Lines(image) {
		if !strings.HasPrefix(line, "COPY ") && !strings.HasPrefix(line, "ADD ") {
			continue
		}
		copies++
		if want := fmt.Sprintf(" --chown=%[1]d:%[1]d ", flannelOwner); !strings.Contains(line, want) {
			t.Errorf("no%sin %s", want, line)
		}
	}
	if copies < 3 {
		t.Errorf("found %d lines that copy files", copies)
	}
}

func TestCoreDNSManifestParses(t *testing.T) {
	kinds := ""
	for part := range strings.SplitSeq(coredns, "\n---\n") {
		var object struct{ Kind string }
		if err := yaml.Unmarshal([]byte(part), &object); err != nil {
			t.Fatal(err)
		}
		kinds += object.Kind + " "
	}
	if want := "ServiceAccount ClusterRole ClusterRoleBinding ConfigMap Service Deployment "; kinds != want {
		t.Errorf("it has %s, want %s", kinds, want)
	}
}

func TestConfigurations(t *testing.T) {
	c := &Cluster{options: Options{}}
	for name, config := range map[string]map[string]any{"KubeletConfiguration": kubeletConfig(),
		"KubeProxyConfiguration": proxyConfig("n1", "nftables", podCIDRs[0])} {
		text, err := json.Marshal(config)
		if err != nil || !strings.Contains(string(text), `"kind":"`+name+`"`) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
	for _, want := range []string{pauseImage, runtimeSocket, "restrict_oom_score_adj = true"} {
		if !strings.Contains(containerdConfig(), want) {
			t.Errorf("containerd's configuration lacks %s", want)
		}
	}
	for _, archive := range c.archives() {
		if !filepath.IsAbs(archive) {
			t.Errorf("%s is not a place on the node", archive)
		}
	}
}
