package server

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"slices"

	"github.com/flanneld/flannel/core/lease"
)

// certificate returns the verified certificate of a client; nil if it has none.
func certificate(r *http.Request) *x509.Certificate {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.PeerCertificates[0]
}

// nameOf returns the name of a client, which stays when its certificate is
// renewed: the common name, else the first other name, else the public key.
func nameOf(c *x509.Certificate) string {
	switch {
	case c == nil:
		return ""
	case c.Subject.CommonName != "":
		return c.Subject.CommonName
	case len(c.DNSNames) > 0:
		return c.DNSNames[0]
	case len(c.URIs) > 0:
		return c.URIs[0].String()
	}
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "key " + hex.EncodeToString(sum[:8])
}

// mayChange refuses a change of a record that is not the client's: it carries
// another address, and another client created it. The addresses of a client are
// those in its certificate, and if that has none, the one that it comes from.
func (s *Server) mayChange(r *http.Request, l lease.Lease) error {
	cert := certificate(r)
	if !s.o.OwnRecords || cert == nil {
		return nil
	}
	own := []netip.Addr{addrOf(r.RemoteAddr)}
	if len(cert.IPAddresses) > 0 {
		own = nil
		for _, ip := range cert.IPAddresses {
			addr, _ := netip.AddrFromSlice(ip) // it has 4 or 16 bytes once parsed
			own = append(own, addr.Unmap())
		}
	}
	for _, ip := range []netip.Addr{l.Attrs.PublicIP, l.Attrs.PublicIPv6} {
		if ip.IsValid() && slices.Contains(own, ip) {
			return nil
		}
	}
	if l.Attrs.Creator != "" && l.Attrs.Creator == nameOf(cert) {
		return nil
	}
	return forbidden(fmt.Errorf("subnet %s: the record belongs to %s; client %q has the addresses %v "+
		"and did not create it", l.Key, l.Attrs.PublicIP, nameOf(cert), own))
}

// addrOf returns the address of "ADDR:PORT"; invalid if there is none.
func addrOf(remote string) netip.Addr {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap().WithZone("")
}
