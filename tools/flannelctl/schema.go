package flannelctl

import (
	"embed"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flanneld/flannel/tools/output"
)

// schemaFiles are the schemas of the results, which UPDATE=1 go test writes.
//
//go:embed schemas/*.json
var schemaFiles embed.FS

// schemaFile returns the name of the file with the schema of a command, such as "leases list".
func schemaFile(command string) string {
	return "schemas/" + strings.ReplaceAll(command, " ", "-") + ".json"
}

// described is the result of the command schema.
type described struct {
	Commands []string `json:"Commands"` // whose results have a schema
}

// Text prints a line for each command.
func (d described) Text(p *output.Page) {
	for _, command := range d.Commands {
		p.Line(output.Plain(command))
	}
}

// withSchema returns the commands below one, with itself, that have a schema.
func withSchema(c *cobra.Command) (commands []string) {
	name := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), c.Root().Name()), " ")
	if file, err := schemaFiles.Open(schemaFile(name)); err == nil {
		_ = file.Close() // it is in memory
		commands = append(commands, name)
	}
	for _, sub := range c.Commands() {
		commands = append(commands, withSchema(sub)...)
	}
	return commands
}

func (a *app) schema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema [COMMAND...]",
		Short: "Print the JSON schema of a command's result",
		Long: "schema prints the JSON Schema (draft 2020-12) of what a command prints with -o json. Without a command, " +
			"it lists those that have one. Later releases may add members.",
		Example: "  flannelctl schema leases list",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.Print(described{withSchema(c.Root())})
			}
			command := strings.Join(args, " ")
			text, err := schemaFiles.ReadFile(schemaFile(command))
			if err != nil {
				return usageError{fmt.Errorf("no schema of %q; flannelctl schema lists the commands that have one", command)}
			}
			return a.Print(document(text))
		},
	}
}
