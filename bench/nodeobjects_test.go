package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"

	"github.com/flanneld/flannel/core/nodelease"
	"github.com/flanneld/flannel/drivers/kube/kubetest"
)

// writersAtOnce is how many connections write node objects at the same time.
const writersAtOnce = 16

// The writers of a node object, which the API server notes in its managedFields.
const (
	kubelet    = "kubelet"
	controller = "kube-controller-manager"
	flannel    = "flanneld"
)

// crowdOfNodes writes node objects to an API server, as the programs of a
// cluster do.
type crowdOfNodes struct {
	nodes        int
	clients      []restclient.Interface
	beats, rolls int // rounds so far
}

func newCrowdOfNodes(b *testing.B, admin *restclient.Config, nodes int) *crowdOfNodes {
	b.Helper()
	c := &crowdOfNodes{nodes: nodes}
	for range writersAtOnce {
		client, err := kubernetes.NewForConfig(restclient.CopyConfig(admin))
		c.must(b, err)
		c.clients = append(c.clients, client.CoreV1().RESTClient())
	}
	return c
}

func (c *crowdOfNodes) must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// each calls write for all nodes from the first, several at once.
func (c *crowdOfNodes) each(
	ctx context.Context, b *testing.B, first int, write func(context.Context, restclient.Interface, int) error,
) {
	b.Helper()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for k, client := range c.clients {
		all.Go(func() {
			for i := first + k; i < c.nodes && ctx.Err() == nil; i += len(c.clients) {
				if err := write(ctx, client, i); err != nil {
					cancel(fmt.Errorf("node object %d: %w", i, err))
				}
			}
		})
	}
	all.Wait()
	c.must(b, context.Cause(ctx))
}

func nodeName(i int) string { return kubetest.Realistic(i).Name }

// object returns the i-th node as its kubelet registers it, with the conditions
// and addresses that a kubelet has.
func (c *crowdOfNodes) object(i int) *corev1.Node {
	n := kubetest.Realistic(i)
	n.ManagedFields, n.CreationTimestamp = nil, metav1.Time{}
	n.Annotations = map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
	n.Spec.PodCIDRs, n.Spec.PodCIDR = nil, ""
	n.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: publicIP(i)},
		{Type: corev1.NodeInternalDNS, Address: n.Name},
		{Type: corev1.NodeHostName, Address: n.Name},
	}
	n.Status.Conditions = c.conditions()
	n.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64826184Ki"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
		"hugepages-1Gi": resource.MustParse("0"), "hugepages-2Mi": resource.MustParse("0"),
	}
	n.Status.Allocatable = n.Status.Capacity
	n.Status.NodeInfo = corev1.NodeSystemInfo{
		MachineID: "ec2a4d1c9f6f4c3e8a0d5c7d2b1e0f3a", SystemUUID: "ec2a4d1c-9f6f-4c3e-8a0d-5c7d2b1e0f3a",
		BootID: "0a9f8e7d-6c5b-4a39-8271-605f4e3d2c1b", KernelVersion: "6.12.40-generic", OSImage: "Debian GNU/Linux 13",
		ContainerRuntimeVersion: "containerd://2.1.4", KubeletVersion: "v1.34.4", OperatingSystem: "linux",
		Architecture: "amd64",
	}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
	return n
}

// conditions returns a kubelet's conditions as of the present round of heartbeats.
func (c *crowdOfNodes) conditions() []corev1.NodeCondition {
	began := time.Unix(1_700_000_000, 0)
	condition := func(
		kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string,
	) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message,
			LastHeartbeatTime:  metav1.NewTime(began.Add(time.Duration(c.beats) * 5 * time.Minute)),
			LastTransitionTime: metav1.NewTime(began)}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory",
			"kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure",
			"kubelet has no disk pressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID",
			"kubelet has sufficient PID available"),
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"),
	}
}

// publicIP returns an address that no host of the lab has.
func publicIP(i int) string { return fmt.Sprintf("172.31.%d.%d", i/250, 1+i%250) }

// subnet returns a node's pod CIDR. The first 16,384 are those of [kubetest.Realistic].
func subnet(i int) string { return fmt.Sprintf("10.%d.%d.0/24", (64+i/256)%256, i%256) }

// mac returns the MAC that a node publishes as of the present round.
func (c *crowdOfNodes) mac(i int) string {
	return fmt.Sprintf("%02x:d2:32:6f:%02x:%02x", 4*(c.rolls%64)+2, i/256, i%256)
}

// register makes a node object with the writes of all programs of a cluster: kubelet creates it, the controller
// manager assigns its subnet, kubelet writes the status, flannel its annotations and its condition.
func (c *crowdOfNodes) register(ctx context.Context, client restclient.Interface, i int) error {
	n := c.object(i)
	status := n.Status
	n.Status = corev1.NodeStatus{}
	err := client.Post().Resource("nodes").Param("fieldManager", kubelet).Body(n).Do(ctx).Error()
	if err != nil {
		return err
	}
	assigned := map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{"node.alpha.kubernetes.io/ttl": "0"}},
		"spec":     map[string]any{"podCIDR": subnet(i), "podCIDRs": []string{subnet(i)}},
	}
	if err := change(ctx, client, controller, i, assigned, false); err != nil {
		return err
	}
	if err := change(ctx, client, kubelet, i, map[string]any{"status": status}, true); err != nil {
		return err
	}
	return c.publish(ctx, client, i)
}

// publish writes the annotations and the condition of a node's flannel.
func (c *crowdOfNodes) publish(ctx context.Context, client restclient.Interface, i int) error {
	const prefix = nodelease.DefaultPrefix + "/"
	since := metav1.NewTime(time.Unix(1_700_000_000, 0))
	return change(ctx, client, flannel, i, map[string]any{
		"metadata": map[string]any{"annotations": map[string]string{
			prefix + "kube-subnet-manager": "true", prefix + "backend-type": "vxlan", prefix + "public-ip": publicIP(i),
			prefix + "backend-data": fmt.Sprintf(`{"VNI":1,"VtepMAC":"%s"}`, c.mac(i)),
		}},
		"status": map[string]any{"conditions": []corev1.NodeCondition{{
			Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "FlannelIsUp",
			Message: "Flannel is running on this node", LastHeartbeatTime: since, LastTransitionTime: since,
		}}},
	}, true)
}

// heartbeat is the patch with which a kubelet says every five minutes that its
// status is the same.
func (c *crowdOfNodes) heartbeat(ctx context.Context, client restclient.Interface, i int) error {
	var order, conditions []map[string]any
	for _, k := range c.conditions() {
		order = append(order, map[string]any{"type": k.Type})
		conditions = append(conditions, map[string]any{"type": k.Type, "lastHeartbeatTime": k.LastHeartbeatTime})
	}
	return change(ctx, client, kubelet, i, map[string]any{"status": map[string]any{
		"$setElementOrder/conditions": order, "conditions": conditions}}, true)
}

// change patches a node, or its status, in the name of a program.
func change(ctx context.Context, client restclient.Interface, program string, i int, patch any, status bool) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	req := client.Patch(types.StrategicMergePatchType).Resource("nodes").Name(nodeName(i)).
		Param("fieldManager", program).Body(body)
	if status {
		req = req.SubResource("status")
	}
	if err := req.Do(ctx).Error(); err != nil {
		return fmt.Errorf("%s patches it: %w", program, err)
	}
	return nil
}
