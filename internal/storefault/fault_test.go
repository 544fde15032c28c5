package storefault

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flanneld/flannel/core/lease"
)

// TestMark checks causes that errors of Kubernetes and TLS carry. Those of etcd and of servers come from real ones in
// scenarios/servers.
func TestMark(t *testing.T) {
	nodes := schema.GroupResource{Resource: "nodes"}
	verify := func(err error) error { return &tls.CertificateVerificationError{Err: err} }
	for _, c := range []struct {
		err  error
		want lease.Fault
	}{
		{nil, ""},
		{errors.New("connection refused"), ""},
		{apierrors.NewForbidden(nodes, "n1", errors.New("no")), lease.FaultForbidden},
		{apierrors.NewUnauthorized("no"), lease.FaultUnauthorized},
		{verify(x509.UnknownAuthorityError{}), lease.FaultAuthority},
		{verify(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"}), lease.FaultCertificate},
		{verify(x509.CertificateInvalidError{Reason: x509.Expired}), lease.FaultExpired},
		{verify(x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}), ""},
		{errors.New("remote error: tls: expired certificate"), lease.FaultExpired},
		{errors.New("rpc error: code = Unavailable desc = etcdserver: no leader"), lease.FaultLeader},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("watch: %w", err)
		}
		got := Mark(err)
		if lease.FaultOf(got) != c.want || (got == nil) != (err == nil) || got != nil && got.Error() != err.Error() {
			t.Errorf("%v: %v, of the cause %q, want %q", err, got, lease.FaultOf(got), c.want)
		}
		if !errors.Is(got, c.err) {
			t.Errorf("%v hides the error", got)
		}
		if got != Mark(err) {
			t.Errorf("two marks of %v differ", err)
		}
	}
}
