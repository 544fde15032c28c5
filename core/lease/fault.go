package lease

import "errors"

// Fault is a cause of a datastore's failure that its operator or the node's can remove.
type Fault string

// The faults. A failure of another kind has none.
const (
	FaultSpace       Fault = "space"       // the datastore has reached its quota, and takes no writes
	FaultPassword    Fault = "password"    // a name, password or token is wrong
	FaultExpired     Fault = "expired"     // a certificate has expired, or is not valid yet
	FaultAuthority   Fault = "authority"   // one side does not trust the authority of the other's certificate
	FaultCertificate Fault = "certificate" // the datastore demands a certificate and gets none, or one for another host
	FaultDenied      Fault = "denied"      // the user may not do this
	FaultLeader      Fault = "leader"      // the members of etcd that answer have no leader
	// FaultUnauthorized and FaultForbidden are answers of Kubernetes' API server.
	FaultUnauthorized Fault = "unauthorized" // it accepts neither the token nor the certificate: one is wrong, or expired
	FaultForbidden    Fault = "forbidden"    // the rights of the account do not allow this
)

// FaultError is an error with a known cause.
type FaultError struct {
	Fault Fault
	Err   error
}

// Error is that of the error itself.
func (e FaultError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e FaultError) Unwrap() error { return e.Err }

// FaultOf returns the cause of an error; empty: it is not known.
func FaultOf(err error) Fault {
	var known FaultError
	errors.As(err, &known)
	return known.Fault
}
