// Package command keeps the record of the operator's commands that have run on a
// host, and decides which texts an op runs. Drivers supply the shell and the
// file for the record.
//
// A command cannot be read back from the kernel, so the record replaces the
// observation. It is written before and after each run: after a crash, a
// command that was under way counts as failed, and no command that has run is
// forgotten.
//
//	            run Text                        run Text, or Undo
//	(nothing) ──► failed ──► done ──► stale     of an earlier stage
//	                ▲         │  ▲      │
//	                └─────────┘  └──────┘
//	               run again fails   run again
//
// A command that failed, or that differs from the desired one, is undone before
// Text runs: so a text that cannot run twice, such as "ip route add", can be
// retried. A stale command runs again unchanged, and is undone only if that fails. A
// command that is no longer desired is "undone" from the start of its Undo until that
// succeeds and removes it; if it is desired again meanwhile, it counts as failed.
//
// No effect is forgotten while commands fail. A command that succeeded once, and whose
// repetition fails, is "undone" too. If neither the Undo of former data nor Text with
// the new data succeeds, the former data stay on record and the new ones are undone.
// If a command that may be in effect is no longer desired and its Undo fails, it is
// "left": no run is due, but Undo runs again before the next command under its key.
//
// The package starts no process and knows no files.
package command
