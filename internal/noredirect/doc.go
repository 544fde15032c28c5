// Package noredirect makes HTTP clients that follow no redirect. A host that an
// operator asks may be hostile: it must not lead the request, with the operator's
// rights and view of the network, to another place.
package noredirect
