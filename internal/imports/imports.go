// Package imports reads the imports of Go source files, for tests that check
// which package imports which.
package imports

import (
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// module is the path of this module.
const module = "github.com/flanneld/flannel/"

// Own returns the packages of this module that the Go files of a folder import,
// tests included, as paths below the module. It does not look into subfolders.
func Own(dir string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s holds no Go file", dir)
	}
	if err != nil {
		return nil, err
	}
	var own []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return nil, err
		}
		for _, i := range parsed.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return nil, fmt.Errorf("%s imports %s: %w", file, i.Path.Value, err)
			}
			if name, ok := strings.CutPrefix(path, module); ok {
				own = append(own, name)
			}
		}
	}
	slices.Sort(own)
	return slices.Compact(own), nil
}
