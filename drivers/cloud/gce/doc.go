// Package gce keeps routes in a Google Compute Engine network, for the backend gce
// (interop 6.9).
//
// The six calls are Compute Engine's REST API, written here: Google's module for
// it would raise the versions of gRPC and others that etcd needs (docs/adr/0032).
// Credentials from a file are the work of golang.org/x/oauth2; those of the
// instance's account are one question to the metadata service.
package gce
