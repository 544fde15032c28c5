// Package kubetest is the part of a Kubernetes API server that a node daemon
// sees: nodes in chunks, watches with bookmarks and streaming lists, 410 Gone,
// strategic merge patches of the status subresource, in protobuf. client-go's
// fake has none of these, and no resource versions.
//
// It is for tests: it authenticates no client.
package kubetest
