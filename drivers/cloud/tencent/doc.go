// Package tencent keeps routes in the route table of a Tencent Cloud VPC, for the
// backend tencent-vpc (interop 6.9).
//
// The common part of Tencent's SDK signs and sends requests. The types of the
// three calls are written here: the SDK has them for all of the VPC's calls
// (docs/adr/0032).
package tencent
