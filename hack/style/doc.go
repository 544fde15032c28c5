// Command style checks the project's rules for code and English that no linter of golangci-lint has. CONTRIBUTING.md
// has the rules. It is a tool of go vet:
//
//	go vet -vettool=bin/style ./core/...
//	bin/style documents
//
// The second form checks the words of the files that git names and that are no Go code: documents, and comments after
// a #.
package main
