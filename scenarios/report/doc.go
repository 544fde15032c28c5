// Package report says in plain words what happened in a scenario: what went wrong,
// where a packet was lost, and how each node differed from its desired state.
//
// [Finish] turns the observations of a [page.Recorder] into a recording with a summary,
// and [page.Write] turns that into a page. The package knows no world and no session;
// its caller supplies the times, counted from the beginning of the world.
package report
