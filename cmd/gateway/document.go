package main

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"parley/filecontent/document"
)

// readDocument is the name of documentCommand.
const readDocument = "read-document"

// documentCommand returns the command by which the gateway reads a document in a process
// of its own. It is not for people.
func documentCommand() *cobra.Command {
	var address string
	c := &cobra.Command{
		Use:    readDocument,
		Short:  "Print the text of a document on standard input",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if address != "" {
				os.Exit(document.ServeWebPage(os.Stdin, os.Stdout, os.Stderr, address))
			}
			os.Exit(document.Serve(os.Stdin, os.Stdout, os.Stderr))
			return nil
		},
	}
	c.Flags().StringVar(&address, strings.TrimPrefix(document.WebPageFlag, "--"), "", "read a web page that was at this address")
	return c
}

// documentReader returns the command line of documentCommand.
func documentReader() []string { return ownCommand(readDocument) }

// ownCommand returns the command line of a subcommand, or nothing where this program does not
// know its own file.
func ownCommand(name string) []string {
	path, err := os.Executable()
	if err != nil {
		return nil
	}
	return []string{path, name}
}
