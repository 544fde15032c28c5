package docs_test

import (
	"os"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// The table of rights has each rule of the ClusterRole that the manifest applies.
func TestRightsAreTheManifests(t *testing.T) {
	manifest, err := os.ReadFile(root + "/deploy/kube-flannel.yml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	rules := 0
	for object := range strings.SplitSeq(string(manifest), "\n---\n") {
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal([]byte(object), &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			rules++
			for _, resource := range rule.Resources {
				want := "\n| `" + resource + "` | `" + strings.Join(rule.Verbs, "`, `") + "` | "
				if !strings.Contains(string(page), want) {
					t.Errorf("kubernetes.md has no row %s", want)
				}
			}
		}
	}
	if rules == 0 {
		t.Error("the manifest grants nothing")
	}
}
