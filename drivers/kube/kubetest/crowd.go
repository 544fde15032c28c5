package kubetest

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const prefix = "flannel.alpha.coreos.com/"

// Realistic returns the i-th node of a large cluster as kubelets make them: of
// some 12 kB, 300 bytes matter. Its subnet lies in 10.64.0.0/10.
func Realistic(i int) *corev1.Node {
	n := &corev1.Node{}
	n.Name = fmt.Sprintf("ip-10-%d-%d.eu-central-1.compute.internal", i/250, i%250)
	n.CreationTimestamp = metav1.NewTime(time.Unix(1_700_000_000, 0))
	n.Annotations = map[string]string{
		prefix + "kube-subnet-manager": "true", prefix + "backend-type": "vxlan", prefix + "backend-data": vxlanData(0, i),
		prefix + "public-ip": fmt.Sprintf("192.168.%d.%d", i/250, i%250),
		"volumes.kubernetes.io/controller-managed-attach-detach": "true",
	}
	n.Spec.PodCIDR = fmt.Sprintf("10.%d.%d.0/24", 64+i/256, i%256)
	n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
	n.Labels = map[string]string{}
	for k := range 20 {
		n.Labels[fmt.Sprintf("topology.kubernetes.io/label-%d", k)] = fmt.Sprintf("value-%d-%d", i%7, k)
		address := fmt.Sprintf("10.%d.%d.%d", k, i/250, i%250)
		n.Status.Addresses = append(n.Status.Addresses,
			corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(fmt.Sprintf("Condition%d", k)), Status: corev1.ConditionFalse,
			LastHeartbeatTime: n.CreationTimestamp, LastTransitionTime: n.CreationTimestamp,
			Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available, as far as it can tell",
		})
	}
	n.ManagedFields = managedFields(n)
	for k := range 30 {
		image := fmt.Sprintf("registry.example.com/team-%d/some-application-or-other", k)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names:     []string{image + "@sha256:" + strings.Repeat("0123456789abcdef", 4), image + ":v1.2.3"},
			SizeBytes: 123_456_789,
		})
	}
	return n
}

// managedFields names who has written which part, as the API server records it: here kubelet its conditions.
func managedFields(n *corev1.Node) []metav1.ManagedFieldsEntry {
	var text strings.Builder
	text.WriteString(`{"f:status":{"f:conditions":{`)
	for i, c := range n.Status.Conditions {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `"k:{\"type\":\"%s\"}":{".":{},"f:lastHeartbeatTime":{},"f:type":{}}`, c.Type)
	}
	text.WriteString("}}}")
	return []metav1.ManagedFieldsEntry{{
		Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Subresource: "status",
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(text.String()),
	}}
}

// vxlanData returns the data of the i-th node about its n-th device.
func vxlanData(n, i int) string {
	return fmt.Sprintf(`{"VNI":1,"VtepMAC":"%02x:d2:32:6f:%02x:%02x"}`, 4*(n%64)+2, i/256, i%256)
}

// Last is the subnet of a node that "/do/last" adds to a crowd.
const Last = "10.99.0.0/24"

// Crowd is a server of that many realistic nodes. Besides the API it serves the
// commands of a benchmark in another process: "/do/roll" changes the MAC that
// each node publishes, "/do/heartbeat" lets each write its status, "/do/last"
// adds one node.
func Crowd(nodes int) http.Handler {
	api := New()
	for i := range nodes {
		api.Put(Realistic(i))
	}
	mux := http.NewServeMux()
	mux.Handle("/", api)
	times := 0
	each := func(change func(i int, n *corev1.Node)) http.HandlerFunc {
		return func(http.ResponseWriter, *http.Request) {
			times++
			for i := range nodes {
				api.Change(Realistic(i).Name, func(n *corev1.Node) { change(i, n) })
			}
		}
	}
	mux.HandleFunc("/do/roll", each(func(i int, n *corev1.Node) {
		n.Annotations[prefix+"backend-data"] = vxlanData(times, i)
	}))
	mux.HandleFunc("/do/heartbeat", each(func(_ int, n *corev1.Node) {
		heartbeat := &n.Status.Conditions[0].LastHeartbeatTime
		*heartbeat = metav1.NewTime(heartbeat.Add(5 * time.Minute))
	}))
	mux.HandleFunc("/do/last", func(http.ResponseWriter, *http.Request) {
		n := Realistic(nodes)
		n.Spec.PodCIDR, n.Spec.PodCIDRs = Last, []string{Last}
		api.Put(n)
	})
	return mux
}
