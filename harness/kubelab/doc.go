// Package kubelab gives a lab of package harness a real Kubernetes API server:
// a kube-apiserver process beside the lab's etcd, with RBAC on, whose nodes are
// whatever the test writes, and to its nodes a kube-proxy each. There is no kubelet,
// no scheduler and no controller; nothing changes an object but the test and flanneld.
//
// Both programs are built from Kubernetes' own module by make test-kube.
package kubelab
