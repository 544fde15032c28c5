// Package api is the wire form of the HTTP API between nodes and servers, as
// releases v0.5 to v0.7 spoke it (interop 3.9), and of what our own clients and
// servers add.
//
// The API of old has no compare on revision, tells neither revisions nor TTL
// handles, and hands out one event for each request. Our own additions travel in
// one header, [Header], which old programs ignore: its value holds [Terms]. A
// server that reads the header answers with it, so each side knows what the other
// speaks. A watch whose request has the header gets a stream of [Frame] lines; all
// other bodies are those of old.
package api
