// Package alloc decides which subnet a node shall take. It is a pure choice:
// the random source is an argument, the outcome a key that nobody has yet.
package alloc
