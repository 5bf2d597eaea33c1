package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/conversation"
)

// drawer keeps files in memory.
type drawer map[string]string

func (d drawer) Put(_ context.Context, key conversation.Key, name, mediaType string, data []byte) (conversation.Attachment, error) {
	d[string(key)+" "+name+" "+mediaType] = string(data)
	return conversation.Attachment{Name: name, MediaType: mediaType, Size: int64(len(data)), Ref: name}, nil
}

func (d drawer) Fetch(context.Context, conversation.Attachment) (io.ReadCloser, error) {
	return nil, errors.New("not asked for")
}

func TestFilesAreSentByTheirPath(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	for name, text := range map[string]string{"notes.txt": "buy milk", "my plan.txt": "sleep", "empty.txt": ""} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	notes, plan := filepath.Join(dir, "notes.txt"), filepath.Join(dir, "my plan.txt")
	for line, want := range map[string]string{
		"/attach " + notes + " what is this?": "what is this?|notes.txt",
		notes:                                 "|notes.txt",
		"'" + plan + "' and " + notes:         "and " + notes + "|my plan.txt",
		strings.ReplaceAll(plan, " ", `\ `) + " " + notes: "|my plan.txt,notes.txt",
		"file://" + strings.ReplaceAll(plan, " ", "%20"):  "|my plan.txt",
		"~/notes.txt what?":         "what?|notes.txt",
		"what is in " + notes + "?": "what is in " + notes + "?|",
		"/attached to it":           "/attached to it|",
		"/status":                   "/status|",
		"it's late":                 "it's late|",
		"/nowhere/notes.txt":        "/nowhere/notes.txt|",
		dir:                         dir + "|",
		"/attach":                   "error: there is no file to send: write /attach FILE",
		"/attach /nowhere/a.txt":    "error: there is no file /nowhere/a.txt",
		"/attach " + dir:            "error: " + dir + " is no file",
		"/attach ~/empty.txt":       "error: " + filepath.Join(dir, "empty.txt") + " is empty",
	} {
		c := &Channel{key: "cli:desk", files: drawer{}}
		in := conversation.Inbound{Text: line}
		err := c.attach(t.Context(), &in)
		var names []string
		for _, a := range in.Attachments {
			names = append(names, a.Name)
		}
		got := in.Text + "|" + strings.Join(names, ",")
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	kept := drawer{}
	c := &Channel{key: "cli:desk", files: kept}
	if err := c.attach(t.Context(), &conversation.Inbound{Text: notes}); err != nil || kept["cli:desk notes.txt text/plain"] != "buy milk" {
		t.Errorf("kept %v, %v", kept, err)
	}
}

// A file that can't be sent leaves the line as it was, with the reason above it.
func TestAFileIsSentFromTheLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, []byte("buy milk"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := sit(t, Options{Files: drawer{}})
	d.types("/attach /nowhere/a.txt\r")
	d.sees("there is no file /nowhere/a.txt")
	d.types("\x15/attach " + path + " see this\r") // Ctrl-U empties the line
	if in := d.inbound(0); in.Text != "see this" || len(in.Attachments) != 1 || in.Attachments[0].Name != "notes.txt" || !in.NeverCommand {
		t.Errorf("%+v", in)
	}
}
