package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"parley/conversation"
	"parley/conversation/transcript"
	"parley/internal/durable"
)

func exportCommand(configPath *string) *cobra.Command {
	var formatName, path string
	var files bool
	command := &cobra.Command{
		Use:   "export KEY|ID",
		Short: "Write a session's conversations, or one of them, as Markdown or JSON",
		Long: "md is Markdown, for people. json is one document with everything that is stored. jsonl is the same with one\n" +
			"record per line. `gateway import` reads both. Pictures and files are only named; --files also writes their bytes.",
		Example: "  gateway sessions export telegram:chat:42 -o chat.md\n  gateway sessions export 019df0a2 --format json",
		Args:    cobra.ExactArgs(1),
		RunE: withStore(configPath, func(cmd *cobra.Command, args []string, store *conversation.Store) error {
			format, err := exportFormat(formatName, path)
			if err != nil {
				return err
			}
			if files && format == transcript.Markdown {
				return errors.New("--files: found with the format md, allowed: with json, jsonl")
			}
			t, err := findTarget(cmd, store, args[0])
			if err != nil {
				return err
			}
			if path == "" || path == "-" {
				return export(cmd, store, t, format, files, cmd.OutOrStdout())
			}
			return replaceFile(path, func(out io.Writer) error { return export(cmd, store, t, format, files, out) })
		}),
		ValidArgsFunction: completeSessions(configPath),
	}
	command.Flags().StringVar(&formatName, "format", "", "`FORMAT`: md, json or jsonl (default by the file's name, else md)")
	command.Flags().StringVarP(&path, "output", "o", "", "write to `FILE`, all of it or nothing, instead of to standard output")
	command.Flags().BoolVar(&files, "files", false, "write the bytes of pictures and files as well, in base64 (json, jsonl)")
	command.Flags().BoolVar(&files, "images", false, "the same as --files")
	_ = command.Flags().MarkHidden("images") // its name before there were files
	return command
}

// exportFormat returns the format of the flag, or else that of the file's name.
func exportFormat(name, path string) (transcript.Format, error) {
	if name != "" {
		return transcript.ParseFormat(name)
	}
	if format, err := transcript.ParseFormat(strings.TrimPrefix(filepath.Ext(path), ".")); err == nil {
		return format, nil
	}
	return transcript.Markdown, nil
}

// longExport is the number of messages from which on progress is shown.
const longExport = 2000

func export(cmd *cobra.Command, store *conversation.Store, t target, format transcript.Format, files bool, to io.Writer) error {
	ctx, stop := interruptible(cmd.Context())
	defer stop()
	list, err := t.conversations(ctx, store)
	if err != nil {
		return err
	}
	var total int64
	for _, c := range list {
		total += c.Messages
	}
	bar := newProgress(cmd.ErrOrStderr(), total, "Exporting", progressbar.OptionShowCount(),
		progressbar.OptionSetVisibility(total >= longExport && isTerminal(cmd.ErrOrStderr()) && !isTerminal(to)))
	out := bufio.NewWriter(to)
	slices.Reverse(list)
	progress := func() { _ = bar.Add(1) } // a picture of the work, not the work
	err = transcript.Export(ctx, out, format, store, t.session, list, files, progress)
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted before the end")
	}
	if err != nil {
		return err
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return bar.Finish()
}

// replaceFile writes a file that only its owner can read. It gets its name when it
// is complete. Pipes and devices are written to.
func replaceFile(path string, write func(io.Writer) error) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("%s is a folder: name a file in it", path)
	case err == nil && !info.Mode().IsRegular():
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(file), file.Close())
	}
	if target, err := filepath.EvalSymlinks(path); err == nil { // a link stays one
		path = target
	}
	if folder, err := os.Stat(filepath.Dir(path)); err != nil || !folder.IsDir() {
		return fmt.Errorf("there is no folder %s", filepath.Dir(path))
	}
	if err := durable.WriteFile(path, ".export-*", func(file *os.File) error { return write(file) }, os.Rename); err != nil {
		return fmt.Errorf("%s was not written: %w", path, err)
	}
	return nil
}
