// Package page turns a recording of a cluster into one HTML page that explains itself: the
// summary in plain words, and below it a timeline to scrub, the topology, who reaches
// whom, a packet's way, and the difference between each node and its desired state.
//
// A [Recorder] takes observations and keeps changes only; [Recorder.Finish] makes them a
// [Recording], and [Write] a page of it. The page is self-contained and asks the network
// for nothing. The scenarios' runner makes pages of runs, flannelctl of a live cluster.
package page
