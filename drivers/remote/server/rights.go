package server

import (
	"crypto/sha256"
	"crypto/tls"
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
	if r.TLS == nil {
		return nil
	}
	return verified(*r.TLS)
}

func verified(state tls.ConnectionState) *x509.Certificate {
	if len(state.VerifiedChains) == 0 {
		return nil
	}
	return state.PeerCertificates[0]
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

// mayChange refuses a change of a record that is not the client's: it carries another address, and
// another client created it.
func (s *Server) mayChange(r *http.Request, l lease.Lease) error {
	cert := certificate(r)
	if !s.o.OwnRecords || cert == nil {
		return nil
	}
	own := addressesOf(r)
	for _, ip := range publicOf(l.Attrs) {
		if slices.Contains(own, ip) {
			return nil
		}
	}
	if l.Attrs.Creator != "" && l.Attrs.Creator == nameOf(cert) {
		return nil
	}
	return forbidden(fmt.Errorf("subnet %s: the record belongs to %s; client %q has the addresses %v "+
		"and did not create it", l.Key, l.Attrs.PublicIP, nameOf(cert), own))
}

// creator returns the creator that a changed record names. A node that takes over a lease with its own address, from
// the host that had the address before, is its creator from then on; so the former one has no part in it.
func (s *Server) creator(r *http.Request, present lease.Lease, attrs lease.Attrs) string {
	cert := certificate(r)
	if !s.o.OwnRecords || cert == nil || present.Reserved() || attrs.Equal(present.Attrs) {
		return present.Attrs.Creator
	}
	own := addressesOf(r)
	if !slices.ContainsFunc(publicOf(attrs), func(ip netip.Addr) bool { return slices.Contains(own, ip) }) {
		return present.Attrs.Creator
	}
	return nameOf(cert)
}

// mayCarry refuses a record with an address that is not the client's: all nodes would send that host's
// packets to another one. The present record, if there is one, may keep its addresses. Where nothing
// tells the client's addresses of a family, the client may use one that no other record carries, unless the quota
// goes by that address alone: then the client could hold as many leases as it claims addresses.
func (s *Server) mayCarry(c call, present *lease.Lease, attrs lease.Attrs) error {
	cert := certificate(c.Request)
	if !s.o.OwnRecords || cert == nil {
		return nil
	}
	own := addressesOf(c.Request)
	snap, err := c.feed.synced()
	if err != nil {
		return err
	}
	h := s.holderOf(c.Request, attrs, snap)
	for _, ip := range publicOf(attrs) {
		kept := present != nil && slices.Contains(publicOf(present.Attrs), ip)
		if kept || slices.Contains(own, ip) {
			continue
		}
		counts := h.Name == "" && ip == h.Address()
		told := slices.ContainsFunc(own, func(o netip.Addr) bool { return o.Is4() == ip.Is4() })
		if !counts && !told && !carries(snap, present, ip) {
			continue
		}
		return forbidden(fmt.Errorf("a record with the address %s: client %q has the addresses %v; "+
			"put %s into its certificate", ip, nameOf(cert), own, ip))
	}
	return nil
}

// carries reports whether a record other than the present one has an address.
func carries(snap *lease.Snapshot, present *lease.Lease, ip netip.Addr) bool {
	return slices.ContainsFunc(snap.Leases, func(l *lease.Lease) bool {
		return (present == nil || l.Key != present.Key) && slices.Contains(publicOf(l.Attrs), ip)
	})
}

// addressesOf returns the addresses of a client with a certificate: those in the certificate, and if
// that has none, the one that the client comes from.
func addressesOf(r *http.Request) []netip.Addr {
	var own []netip.Addr
	for _, ip := range certificate(r).IPAddresses {
		addr, _ := netip.AddrFromSlice(ip) // it has 4 or 16 bytes once parsed
		own = append(own, addr.Unmap())
	}
	if len(own) == 0 {
		own = append(own, addrOf(r.RemoteAddr))
	}
	return own
}

// publicOf returns the public addresses of a record.
func publicOf(attrs lease.Attrs) []netip.Addr {
	var ips []netip.Addr
	for _, ip := range []netip.Addr{attrs.PublicIP, attrs.PublicIPv6} {
		if ip.IsValid() && !ip.IsUnspecified() {
			ips = append(ips, ip.Unmap())
		}
	}
	return ips
}

// addrOf returns the address of "ADDR:PORT"; invalid if there is none.
func addrOf(remote string) netip.Addr {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return from.Addr().Unmap().WithZone("")
}
