// Package command keeps the record of the operator's commands that have run on a
// host, and decides which texts an op runs. Drivers supply the shell and the
// place of the record.
//
// A command cannot be read back from the kernel, so the record takes the place of
// an observation. It is written before and after each run: after a crash, a
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
// retried. A stale command is repeated as it is, and undone only if that fails. A
// command that is no longer desired is "undone" from when its Undo begins until that
// has succeeded, which removes it: desired again meanwhile, it counts as failed.
//
// No effect is forgotten while commands fail. A command that succeeded once, and whose
// repetition fails, is "undone" too. If neither the Undo of former data nor Text with
// the new data succeeds, the former data stay on record and the new ones are undone.
//
// The package starts no process and knows no files.
package command
