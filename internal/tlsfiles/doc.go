// Package tlsfiles reads the certificate files that flags name, for clients and servers
// of the lease stores. It opens no connection.
package tlsfiles
