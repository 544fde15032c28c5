// Package scenarios runs the scenario files of cases and regressions in two
// worlds: the simulator, in virtual time, and network namespaces, with real
// daemons on the real kernel. It holds tests only.
//
//	cases        the scenario files
//	regressions  scenario files that the search wrote
//	lang         the language: sessions, verbs, and the interfaces of a world
//	simworld     a topology in drivers/sim
//	labworld     a topology in network namespaces, from package harness
//	check        the judges: oracle and invariants
//	search       random scenarios from a seed
//	report       a page that explains a run
package scenarios
