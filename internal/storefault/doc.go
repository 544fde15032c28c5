// Package storefault finds out why a request to a datastore has failed, from the errors of etcd, of Kubernetes and of
// TLS. It sends no request.
package storefault
