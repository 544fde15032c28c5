// Package dump writes one archive with everything that a remote helper needs: tables
// of the kernel, rules, settings, files, versions, and what the daemon says.
// It shows no credential: [Redactor] takes the known ones and all texts that look
// like one out of every file.
package dump
