// Package ali keeps routes in the route table of an Alibaba Cloud VPC, for the
// backend ali-vpc (interop 6.9).
//
// The calls and their signature are written here, as Alibaba's "RPC" style wants
// them: its module panics on some answers and knows no context (docs/adr/0032).
package ali
