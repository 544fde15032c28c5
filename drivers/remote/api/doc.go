// Package api is the wire form of the HTTP API between nodes and servers, as
// releases v0.5 to v0.7 spoke it (interop 3.9), with the additions of our own
// clients and servers.
//
// The old API has no compare on revision, shows neither revisions nor TTL
// handles, and hands out one event for each request. Our own additions travel in
// one header, [Header], which old programs ignore: its value holds [Terms]. A
// server that reads the header answers with it, so each side knows what the other
// speaks. A watch whose request has the header gets a stream of [Frame] lines; all
// other bodies are the old ones.
package api
