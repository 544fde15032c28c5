package main

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// podValues reads the values that make test-kube shows to an API server, too.
func podValues(t *testing.T) map[string]any {
	t.Helper()
	text, err := os.ReadFile("testdata/pods.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// The values that shape the pods are in the places where Kubernetes reads them.
func TestPodValues(t *testing.T) {
	values := podValues(t)
	put(values, "flannel.podMonitor", map[string]any{"enabled": true})
	set := object[appsv1.DaemonSet](t, mustRender(t, values)["daemonset"])
	pod := set.Spec.Template
	flanneld := pod.Spec.Containers[0]
	affinity := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "pool", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"virtual"}}}}}}}}
	for _, c := range []struct {
		name       string
		have, want any
	}{
		{"extraArgs", flanneld.Args, []string{"--ip-masq", "--kube-subnet-mgr", "--iface-from-node", "--iface=eth1",
			"--healthz-port=8081"}},
		{"extraEnv", flanneld.Env[1:], []corev1.EnvVar{{Name: "GODEBUG", Value: "netdns=go"},
			{Name: "HOST_IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{
				FieldPath: "status.hostIP"}}}}},
		{"healthz", flanneld.LivenessProbe.FailureThreshold, int32(9)},
		{"podMonitor", flanneld.Ports, []corev1.ContainerPort{{Name: "healthz", ContainerPort: 8081}}},
		{"podAnnotations", pod.Annotations["example.com/team"], "network"},
		{"maxUnavailable", set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.IntVal, int32(1)},
		{"priorityClassName", pod.Spec.PriorityClassName, "system-cluster-critical"},
		{"resources", flanneld.Resources.Limits.Memory().String(), "100Mi"},
		{"seLinuxOptions", pod.Spec.SecurityContext.SELinuxOptions, &corev1.SELinuxOptions{Type: "spc_t",
			Level: "s0:c1,c2"}},
		{"nodeSelector", pod.Spec.NodeSelector, map[string]string{"kubernetes.io/os": "linux", "disk": "ssd"}},
		{"affinity", pod.Spec.Affinity, affinity},
	} {
		if diff := cmp.Diff(c.want, c.have); diff != "" {
			t.Errorf("%s (-want +have):\n%s", c.name, diff)
		}
	}
}
