package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/analysis/unitchecker"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "documents" {
		found, err := documents(".")
		if err != nil {
			fmt.Fprintln(os.Stderr, "style:", err)
			os.Exit(2)
		}
		for _, line := range found {
			fmt.Println(line)
		}
		os.Exit(min(1, len(found)))
	}
	unitchecker.Main(statements, words, mapOrder)
}
