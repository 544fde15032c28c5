package specs_test

import (
	"cmp"
	"context"
	"os"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const securityLevel = "pod-security.kubernetes.io/enforce"

// manifest returns the path of the manifest that the cluster runs.
func manifest() string { return cmp.Or(os.Getenv(manifestEnv), repo+"deploy/kube-flannel.yml") }

var _ = Describe("the manifest", func() {
	It("passes a server-side dry run, applied by the client and by the server", func(ctx context.Context) {
		apply := []string{"apply", "--dry-run=server", "--validate=strict", "-f", manifest()}
		out := kubectl(ctx, apply...)
		Expect(out).To(ContainSubstring("daemonset.apps/kube-flannel-ds"))
		Expect(out).NotTo(ContainSubstring("Warning"))
		out = kubectl(ctx, append(apply, "--server-side", "--force-conflicts")...)
		Expect(out).To(ContainSubstring("daemonset.apps/kube-flannel-ds serverside-applied"))
	}, limit)

	It("makes pods that a namespace admits at the level that it sets, and at no stricter one", func(ctx context.Context) {
		set, err := kube.Client.AppsV1().DaemonSets("kube-flannel").Get(ctx, "kube-flannel-ds", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		for level, admits := range map[string]bool{"privileged": true, "baseline": false, "restricted": false} {
			space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "level-" + level,
				Labels: map[string]string{securityLevel: level}}}
			_, err := kube.Client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			DeferCleanup(func(ctx context.Context) {
				Expect(kube.Client.CoreV1().Namespaces().Delete(ctx, space.Name, metav1.DeleteOptions{})).To(Succeed())
			})
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "flannel", Labels: set.Spec.Template.Labels},
				Spec: *set.Spec.Template.Spec.DeepCopy()}
			pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = "", ""
			Eventually(func(g Gomega) { // the namespace gets its account some time later
				_, err = kube.Client.CoreV1().Pods(space.Name).Create(ctx, pod, dryRun)
				if admits {
					g.Expect(err).NotTo(HaveOccurred())
				} else {
					g.Expect(err).To(MatchError(ContainSubstring(`violates PodSecurity "` + level)))
					g.Expect(err).To(MatchError(ContainSubstring("host namespaces")))
				}
			}).WithContext(ctx).Should(Succeed(), level)
		}
	}, limit)

	It("relabels a namespace that had a stricter level, so that its pods start", func(ctx context.Context) {
		for _, level := range []string{"restricted", "baseline"} {
			kubectl(ctx, "label", "namespace", "kube-flannel", securityLevel+"="+level, "--overwrite")
			kubectl(ctx, "apply", "-f", manifest())
			kubectl(ctx, "-n", "kube-flannel", "rollout", "restart", "daemonset/kube-flannel-ds")
			Expect(kube.AwaitFlannel(ctx)).To(Succeed(), level)
		}
	}, limit)
})
