// Package backend says what a way of carrying packets between nodes is: a pure
// function from the leases to the kernel objects that they need. Each folder
// below is one; package all chooses among them.
package backend
