// Package alloc chooses the subnet of a node. The choice is pure: the random
// source is an argument, and the result is a key that no record has yet.
package alloc
