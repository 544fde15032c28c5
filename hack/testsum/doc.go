// Command testsum runs "go test -json" with the arguments after "--", shows
// progress and every failure in full, and closes with what a reader of a long
// log wants to know: what ran, what was skipped and why.
//
// The last line is always "N passed, N failed, N skipped". A test with
// subtests is counted through its subtests only, a ginkgo suite through its specs.
// A scenario is a subtest of a package whose path ends in "scenarios"; its
// world is the element "sim" or "netns" of the test's name.
package main
