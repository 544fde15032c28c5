// Package nl talks netlink: one connection, reader, writer and attribute walker
// for rtnetlink, nfnetlink and their announcements.
//
// It knows the form of messages and none of their meanings. Messages are
// written here instead of by the netlink package, which takes three times the
// time and eight times the memory to read the tables of 5,000 peers
// (BenchmarkLookByLibrary) and cannot batch.
package nl
