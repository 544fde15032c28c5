// Package cloud has the four backends whose packets a cloud provider's router forwards by
// a route table of its own: gce, aws-vpc, ali-vpc and tencent-vpc (interop 6.9). A node
// wants one object, the route of its own subnet, and nothing in the kernel for its peers:
// their packets leave by the host's default route.
//
// The types differ by name and options. The package knows no provider's API.
package cloud
