// Package search looks for bugs: from a seed it draws a topology, a workload
// and a schedule of faults, replays them in the simulator, and requires that
// nothing unsafe happens while the faults last, and that everything heals within
// some time after they end.
//
// A run is a scenario like any other: a list of directives in the language of
// package scenarios. So a failing run, once minimised, is a .txt file that
// fails, and stays as a regression test when the bug is fixed.
package search
