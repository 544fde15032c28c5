// Command testsum runs "go test -json" with the arguments after "--", shows
// progress and every failure in full, and closes with a summary: what ran, what
// was skipped and why, and the end of the output of each failed test.
//
// The last line is always "N passed, N failed, N skipped". A test with
// subtests is counted through its subtests only, unless it fails and none of
// them does, a ginkgo suite through its specs.
//
// Several runs can close with one summary: each adds its results to the same
// file (-results), and those before the last say so (-more). They may run in parallel.
// A test that one run skipped and another ran counts as run.
// A scenario is a subtest of a package whose path ends in "scenarios"; its
// world is the element "sim", "netns" or "vm" of the test's name. The last two are
// real: a scenario that all worlds of the runs skipped except the simulator is listed,
// and fails the run if one of the worlds was a VM.
package main
