// Package commands runs the operator's commands of the extension backend, and
// keeps the record of them in a file.
//
// It implements [driver.Lane] with package command, which decides which text
// runs when. Each text runs with "sh -c" in a process group of its own, in the
// record's folder, with the daemon's environment and the variables of the command.
// Where the folder is missing and cannot be made, that is the root directory.
// No data of a peer becomes a part of the text or an argument. At the time limit
// the whole group is killed.
//
// The record is a file of lines that only grows while the daemon runs: "keep"
// with a command in the text form of dataplane, or "forget" with its key. The
// first line names the boot, because a reboot removes the effects of most commands.
// At each start the file is rewritten without outdated lines.
package commands
