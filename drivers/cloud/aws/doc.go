// Package aws keeps routes in the route tables of an AWS VPC, for the backend
// aws-vpc (interop 6.9).
//
// The instance metadata, the credentials and the signature of requests are the
// work of Amazon's SDK. The five calls themselves are EC2's query protocol, written
// here: the SDK's package for EC2 has some 750 of them (docs/adr/0032).
package aws
