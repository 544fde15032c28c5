// Package kubelab gives a lab of package harness a real Kubernetes API server:
// a kube-apiserver process beside the lab's etcd, with RBAC on. It can give each lab
// node a kube-proxy. The test writes the node objects. There is no kubelet, no
// scheduler and no controller; only the test and flanneld change objects.
//
// Both programs are built from Kubernetes' own module by make test-kube.
package kubelab
