// Command style finds breaches of the project's rules for code and English, as far
// as a program can see them. CONTRIBUTING.md has the rules.
//
//	style [-list] [-held RULE,...] [FOLDER...]
//
// It prints the number of findings by package and rule, for the whole tree or
// for the folders named. With -list it prints each finding instead. With -held
// it prints the findings of these rules, or of all, and its exit status is 1 if
// there is one.
//
// A comment on the line of a finding, or on the line before, allows it:
//
//	style:allow map-order: the keys go into a set
package main
