// Package server serves leases to nodes over HTTP (interop 3.9: server API), so
// that they need no credentials of etcd and no watch of their own there. It
// understands clients of v0.5 to v0.7, and package remote, which says more in a
// header (package api).
//
// A server keeps no state except what it reads from its [Store]: any number of servers
// may serve one datastore, beside nodes that use it directly. All watching clients
// share one watch of the datastore and the encoded form of its changes.
//
// The package knows no datastore. It makes no decision about subnets, except for
// old clients, which leave it to the server.
package server
