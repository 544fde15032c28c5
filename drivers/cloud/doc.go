// Package cloud keeps the route of a node's own subnet in a cloud provider's
// route table, for the backends gce, aws-vpc, ali-vpc and tencent-vpc
// (interop 6.9: their options, identities and route keys).
//
// [Lane] is the node's lane. A [Client] speaks to one provider's API on behalf of the instance that the
// daemon runs on. There is one folder for each provider. The package knows no
// operating system and no lease: it reads and changes routes, and nothing else.
package cloud
