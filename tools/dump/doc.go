// Package dump writes one archive with everything that a remote helper needs: tables
// of the kernel, rules, settings, files, versions, and the daemon's answers.
// It shows no credential: [Redactor] removes the known ones, and all texts that look
// like one, from every file.
package dump
