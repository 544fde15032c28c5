package kubelab_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flanneld/flannel/harness/kubelab"
)

// manifestsEnv names the folder with the manifests that the chart makes with other values.
const manifestsEnv = "FLANNEL_LAB_MANIFESTS"

// manifests returns the objects of the manifest as shipped, and of the others by their names.
func manifests() map[string][]*unstructured.Unstructured {
	GinkgoHelper()
	paths, err := filepath.Glob(filepath.Join(os.Getenv(manifestsEnv), "*.yml"))
	Expect(err).NotTo(HaveOccurred())
	Expect(paths).NotTo(BeEmpty(), "make test-kube makes manifests and names their folder in %s", manifestsEnv)
	all := map[string][]*unstructured.Unstructured{}
	for _, path := range append(paths, manifest) {
		objects, err := kubelab.Objects(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(objects).To(HaveLen(6), path)
		all[strings.TrimSuffix(filepath.Base(path), ".yml")] = objects
	}
	return all
}

// podOf returns a pod as the DaemonSet of a manifest makes it, for a namespace.
func podOf(objects []*unstructured.Unstructured, namespace string) *corev1.Pod {
	GinkgoHelper()
	template, ok, err := unstructured.NestedMap(objects[5].Object, "spec", "template")
	Expect(err).NotTo(HaveOccurred())
	Expect(ok).To(BeTrue())
	pod := &corev1.Pod{}
	Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(template, pod)).To(Succeed())
	pod.Name, pod.Namespace = "flannel", namespace
	pod.Spec.ServiceAccountName = ""
	return pod
}

// level makes a namespace that enforces a level of Pod Security.
func (c *cluster) level(ctx context.Context, level string) {
	GinkgoHelper()
	_, err := c.Client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: level,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	// The controller manager, which the lab lacks, would make it.
	_, err = c.Client.CoreV1().ServiceAccounts(level).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

var _ = Describe("The manifest", func() {
	It("is accepted by the API server, field by field, as shipped and with other values", func(ctx context.Context) {
		c := newCluster(ctx, 1, vxlan) // applies it
		for name, objects := range manifests() {
			for _, o := range objects {
				Expect(c.Apply(ctx, o, true)).To(Succeed(), name)
			}
			objects[5].Object["spec"].(map[string]any)["colour"] = "blue"
			Expect(c.Apply(ctx, objects[5], true)).To(MatchError(ContainSubstring("colour")), name)
		}
	}, limit)

	It("makes pods that only a namespace of the level privileged admits", func(ctx context.Context) {
		c := newCluster(ctx, 1, vxlan)
		refused := map[string][]string{
			"privileged": nil,
			"baseline":   {"host namespaces (hostNetwork=true)", "hostPath volumes", "non-default capabilities"},
			"restricted": {"host namespaces (hostNetwork=true)", "restricted volume types", "unrestricted capabilities",
				"runAsNonRoot != true"},
		}
		for level := range refused {
			c.level(ctx, level)
		}
		for name, objects := range manifests() {
			for level, reasons := range refused {
				_, err := c.Client.CoreV1().Pods(level).Create(ctx, podOf(objects, level),
					metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict})
				GinkgoWriter.Printf("%s in %s: %v\n", name, level, err)
				if reasons == nil {
					Expect(err).NotTo(HaveOccurred(), "%s in %s", name, level)
					continue
				}
				Expect(err).To(MatchError(ContainSubstring(`violates PodSecurity "`+level)), name)
				for _, reason := range reasons {
					Expect(err).To(MatchError(ContainSubstring(reason)), "%s in %s", name, level)
				}
			}
		}
	}, limit)
})
