// Package page turns a recording of a cluster into one self-explanatory HTML page: a
// summary in plain words, and below it a timeline to scrub, the topology, which pods reach
// which, a packet's path, and the difference between each node and its desired state.
//
// A [Recorder] takes observations and keeps only changes; [Recorder.Finish] turns them
// into a [Recording], and [Write] makes a page of it. The page is self-contained and needs
// no network. The scenarios' runner makes pages of runs, flannelctl of a live cluster.
package page
