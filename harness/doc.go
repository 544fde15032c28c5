// Package harness is a lab of network namespaces in which real flanneld processes
// run on the real kernel.
//
// A [Lab] is nodes on one or more underlay segments with a router between
// them, and an etcd. Each node is a namespace with one flanneld process;
// [Node.AddPod] adds a pod behind a bridge, as a CNI plugin would from the
// subnet file. Probes ([Host.Ping], [Pod.PathMTU], [Pod.Transfer]) show the fate of
// packets; faults break the parts of a machine that can break.
//
//	n1 … nN   192.168.64.1 … on eth0, fd00:64::1 … if asked for
//	router    192.168.64.253   the nodes' default route, and between segments
//	store     192.168.64.254   etcd on port 2379
//
// The second segment is 192.168.65.0/24 and fd00:65::/64, and so on.
//
// It needs root or a user namespace ([Main] sees to that), and leaves nothing
// behind however it ends: namespaces are anonymous, the host's own holds no
// device of the lab, processes die with their parent, and files are in a
// mount that only the lab sees.
//
// Nothing here sleeps: callers wait for conditions under a context. The package
// makes no decisions for flannel; it reads the results of flanneld's.
package harness
