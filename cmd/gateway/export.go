package main

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"parley/conversation"
	"parley/conversation/transcript"
)

func exportCommand(configPath *string) *cobra.Command {
	var formatName, path string
	var images bool
	command := &cobra.Command{
		Use:   "export KEY|ID",
		Short: "Write a session's conversations, or one of them, as Markdown or JSON",
		Long: "md is Markdown, for people. json is one document with every stored message. jsonl has one message per line,\n" +
			"and `gateway import` reads it. Pictures are only named; --images also writes their bytes.",
		Example: "  gateway sessions export telegram:chat:42 -o chat.md\n  gateway sessions export 019df0a2 --format json",
		Args:    cobra.ExactArgs(1),
		RunE: withStore(configPath, func(cmd *cobra.Command, args []string, store *conversation.Store) error {
			format, err := exportFormat(formatName, path)
			if err != nil {
				return err
			}
			if images && format == transcript.Markdown {
				return errors.New("--images: found with the format md, allowed: with json, jsonl")
			}
			t, err := findTarget(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			if path == "" || path == "-" {
				return export(cmd, store, t, format, images, cmd.OutOrStdout())
			}
			return replaceFile(path, func(out io.Writer) error { return export(cmd, store, t, format, images, out) })
		}),
		ValidArgsFunction: completeSessions(configPath),
	}
	command.Flags().StringVar(&formatName, "format", "", "`FORMAT`: md, json or jsonl (default by the file's name, else md)")
	command.Flags().StringVarP(&path, "output", "o", "", "write to `FILE`, all of it or nothing, instead of to standard output")
	command.Flags().BoolVar(&images, "images", false, "write the bytes of pictures as well, in base64 (json, jsonl)")
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

func export(cmd *cobra.Command, store *conversation.Store, t target, format transcript.Format, images bool, to io.Writer) error {
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
	writer := transcript.NewWriter(out, format, t.session.Key, t.session.Place)
	for _, c := range slices.Backward(list) {
		messages := store.AllMessages(ctx, conversation.MessageQuery{Conversation: c.ID, View: conversation.ViewAll})
		if images {
			messages = transcript.WithImages(ctx, store, messages)
		}
		if err := transcript.Copy(writer, c, counting(messages, bar)); err != nil {
			return err
		}
	}
	if err := errors.Join(writer.Close(), out.Flush()); err != nil {
		return err
	}
	return bar.Finish()
}

// counting passes messages on and shows on the bar how many there were.
func counting(messages iter.Seq2[conversation.Message, error], bar *progressbar.ProgressBar) iter.Seq2[conversation.Message, error] {
	return func(yield func(conversation.Message, error) bool) {
		for m, err := range messages {
			if !yield(m, err) {
				return
			}
			_ = bar.Add(1) // a picture of the work, not the work
		}
	}
}

// replaceFile writes a file that only its owner can read. It gets its name when it
// is complete.
func replaceFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // made with 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := errors.Join(write(file), file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
