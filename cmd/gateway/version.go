package main

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// linkedVersion is set by the linker: -ldflags "-X main.linkedVersion=v1.2.3".
var linkedVersion string

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "gateway", version())
			return err
		},
	}
}

// version returns the version of this binary: what the linker set, else the module's
// version or the commit that the go command recorded, else "devel".
func version() string {
	info, _ := debug.ReadBuildInfo()
	return cmp.Or(linkedVersion, recordedVersion(info), "devel")
}

// recordedVersion returns the version or commit that the go command recorded, "" if
// it recorded none. info may be nil.
func recordedVersion(info *debug.BuildInfo) string {
	if info == nil {
		return ""
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	if len(revision) > 12 {
		revision = revision[:12]
	}
	if revision != "" && settings["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	return revision
}
