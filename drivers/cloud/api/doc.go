// Package api holds the parts that the providers' clients share: their options,
// requests with bounds and retries, the metadata service, and errors that name
// the right or the limit and never a credential.
//
// It knows no provider. It must not decide about routes: that is the lane's work.
package api
