// Package report says in plain words what happened in a scenario: what went wrong,
// where the packet was lost, and what parted each node from its desired state.
//
// [Finish] makes the observations of a [page.Recorder] a recording with a summary, and
// [page.Write] makes that a page. The package knows no world and no session; times are
// those that its caller gives, since the beginning of the world.
package report
