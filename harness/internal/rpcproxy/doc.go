// Package rpcproxy stands between gRPC clients and their server and decides
// what becomes of each request: done as asked, never done, done without the
// client learning it, or done when the client has given up.
//
// It passes messages on as bytes and knows neither what they say nor flannel.
package rpcproxy
