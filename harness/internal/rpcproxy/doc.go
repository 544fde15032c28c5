// Package rpcproxy sits between gRPC clients and their server and decides what happens
// to each request: done as asked, never done, done without an answer, or done after the
// client has given up.
//
// It passes messages on as bytes, and knows nothing about their contents or flannel.
package rpcproxy
