// Package pods finds the pods of flanneld in a Kubernetes cluster, and connects to their health
// listeners through the API server, as kubectl port-forward does. The connection arrives from the
// loopback address of the pod's node, to which flanneld answers all questions.
package pods
