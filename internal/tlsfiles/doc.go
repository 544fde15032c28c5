// Package tlsfiles reads the certificate files that flags name, for clients and servers
// of the lease stores. It reads them again for each connection.
package tlsfiles
