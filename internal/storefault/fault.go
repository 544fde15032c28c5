package storefault

import (
	"crypto/x509"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flanneld/flannel/core/lease"
)

// Mark adds the cause to an error of a store, if it is known.
func Mark(err error) error {
	if err == nil {
		return nil
	}
	if fault := of(err); fault != "" {
		return lease.FaultError{Fault: fault, Err: err}
	}
	return err
}

// of returns the cause of an error. gRPC and servers of leases pass most errors on as text.
func of(err error) lease.Fault {
	invalid := new(x509.CertificateInvalidError)
	switch {
	case errors.As(err, invalid) && invalid.Reason == x509.Expired:
		return lease.FaultExpired
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return lease.FaultAuthority
	case errors.As(err, new(x509.HostnameError)):
		return lease.FaultCertificate
	case apierrors.IsForbidden(err):
		return lease.FaultForbidden
	case apierrors.IsUnauthorized(err):
		return lease.FaultUnauthorized
	}
	for _, known := range texts {
		if strings.Contains(err.Error(), known.text) {
			return known.fault
		}
	}
	return ""
}

// texts are those of etcd's errors, and of TLS on either side.
var texts = []struct {
	text  string
	fault lease.Fault
}{
	{rpctypes.ErrorDesc(rpctypes.ErrGRPCNoSpace), lease.FaultSpace},
	{rpctypes.ErrorDesc(rpctypes.ErrGRPCAuthFailed), lease.FaultPassword},
	{rpctypes.ErrorDesc(rpctypes.ErrGRPCUserEmpty), lease.FaultPassword},
	{rpctypes.ErrorDesc(rpctypes.ErrGRPCInvalidAuthToken), lease.FaultPassword},
	{rpctypes.ErrorDesc(rpctypes.ErrGRPCPermissionDenied), lease.FaultDenied},
	{rpctypes.ErrorDesc(rpctypes.ErrGRPCNoLeader), lease.FaultLeader},
	{rpctypes.ErrorDesc(rpctypes.ErrGRPCTimeoutDueToLeaderFail), lease.FaultLeader},
	{"certificate has expired or is not yet valid", lease.FaultExpired},
	{"tls: expired certificate", lease.FaultExpired},
	{"certificate signed by unknown authority", lease.FaultAuthority},
	{"tls: unknown certificate authority", lease.FaultAuthority},
	{"tls: bad certificate", lease.FaultAuthority},
	{"tls: certificate required", lease.FaultCertificate},
	{"x509: certificate is valid for", lease.FaultCertificate},
}
