package main

import (
	"os"

	"github.com/spf13/cobra"

	"parley/filecontent/document"
)

// readDocument is the name of documentCommand.
const readDocument = "read-document"

// documentCommand returns the command by which the gateway reads a document in a process
// of its own. It is not for people.
func documentCommand() *cobra.Command {
	return &cobra.Command{
		Use:    readDocument,
		Short:  "Print the text of a document on standard input",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			os.Exit(document.Serve(os.Stdin, os.Stdout, os.Stderr))
			return nil
		},
	}
}

// documentReader returns the command line of documentCommand, or nothing where this
// program does not know its own file.
func documentReader() []string {
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path, readDocument}
}
