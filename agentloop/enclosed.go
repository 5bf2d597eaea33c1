package agentloop

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"parley/conversation"
	"parley/conversation/files"
	"parley/filecontent"
	"parley/plaintext"
)

const (
	maxFileText  = 256 << 10 // bytes of a file's text that a message holds, and search finds
	maxFileTexts = 1 << 20   // bytes of the texts of all files of a message
)

// part is a file as its message has it: a picture, or lines in its text.
type part struct {
	image *conversation.Image // nil for a file
	file  conversation.File   // without the extents of its lines
	section
}

// section is what the text of a message has about a file. head and foot are whole
// lines around the body, the text of a file that was read.
type section struct{ head, body, foot string }

// enclosed is what a message has to say, with its files.
type enclosed struct {
	text   string // with the sections of the files at its end
	images []conversation.Image
	files  []conversation.File
}

// enclose returns a text with files.
func enclose(text string, parts []part) enclosed {
	e := enclosed{text: text}
	room := maxFileTexts
	for _, p := range parts {
		if room -= len(p.body); room < 0 {
			p.section = section{head: notShown(p.file)}
		}
		e.add(p)
	}
	return e
}

// notShown returns the line about a file whose text is kept, and not shown.
func notShown(file conversation.File) string {
	return fmt.Sprintf("[file %s, %s, not shown: read_file shows it]", file.Name, files.Size(file.Size))
}

// add puts a file below the text.
func (e *enclosed) add(p part) {
	if p.image != nil {
		e.images = append(e.images, *p.image)
		return
	}
	if e.text != "" {
		e.text += "\n"
	}
	f := p.file
	f.Lines.From = len(e.text)
	e.text += p.head
	if p.foot != "" {
		f.Body.From = len(e.text) + 1
		e.text += "\n" + p.body
		f.Body.To = len(e.text)
		e.text += "\n" + p.foot
	}
	f.Lines.To = len(e.text)
	e.files = append(e.files, f)
}

// read returns a kept file as its message has it. An error is one of the store.
func (l *loop) read(ctx context.Context, kept files.File) (part, error) {
	name := lineName(kept.Name)
	p := part{file: conversation.File{ID: kept.ID, Name: name, MediaType: mediaType(kept.Declared), Size: kept.Size}}
	err := l.readInto(ctx, kept, &p)
	var problem *filecontent.Problem
	switch {
	case errors.As(err, &problem):
		p.file.Problem = problem.Words
		p.head = fmt.Sprintf("[file %s, %s, can't be read: %s]", name, files.Size(kept.Size), problem.Words)
		return p, nil
	case err != nil && ctx.Err() != nil: // it takes too long for this run
		p.head = notShown(p.file)
		return p, nil
	case err != nil:
		l.deps.Log.Error("kept file not read", "session", l.key, "file", kept.ID, "error", err)
		return p, &files.StoreError{Err: err}
	}
	return p, nil
}

// readInto adds what a kept file shows.
func (l *loop) readInto(ctx context.Context, kept files.File, p *part) error {
	kind := filecontent.KindOf(kept)
	switch declared := mediaType(kept.Declared); {
	case kept.Size == 0:
		return &filecontent.Problem{Words: "it is empty"}
	case kind != filecontent.Picture && conversation.IsImageType(declared):
		return &filecontent.Problem{Words: "it is no " + declared}
	case kind == filecontent.Picture:
		if l.deps.Vision {
			if err := l.router.content.CheckPicture(ctx, kept); err != nil {
				return err
			}
		}
		p.image = &conversation.Image{ID: kept.ID, Name: p.file.Name, MediaType: kept.MediaType, Size: int(kept.Size)}
		return nil
	case kind == filecontent.Other:
		p.head = fmt.Sprintf("[file %s, %s, not shown]", p.file.Name, files.Size(kept.Size))
		return nil
	}
	content, err := l.router.content.Text(ctx, kept)
	if err != nil {
		return err
	}
	defer content.Close()
	text, err := content.ReadPart(0, maxFileText)
	if err != nil {
		return err
	}
	p.section = section{head: "[file " + p.file.Name + "]", body: strings.TrimRight(text, "\n"), foot: "[end of file " + p.file.Name + "]"}
	if content.Size > maxFileText {
		p.foot = fmt.Sprintf("[file %s goes on: it has %s, and read_file shows them]", p.file.Name, files.Size(content.Size))
	}
	return nil
}

// failed returns a file that could not be kept.
func failed(attachment conversation.Attachment, err error) part {
	words := err.Error()
	var panicked *panicError
	if errors.As(err, &panicked) {
		words = "something went wrong"
	}
	p := named(attachment)
	p.file.Problem = words
	if !isFinal(err) {
		words += "; it will be tried again"
	}
	p.head = fmt.Sprintf("[file %s could not be loaded: %s]", p.file.Name, words)
	return p
}

// problemsOf returns what the user is told of files that could not be kept or read.
func problemsOf(parts []part) []string {
	var list []string
	for _, p := range parts {
		if p.image == nil && p.file.Problem != "" {
			list = append(list, "`"+strings.ReplaceAll(p.file.Name, "`", "'")+"`: "+p.file.Problem)
		}
	}
	return list
}

// withNames returns a message with files that are only named. They are fetched by a
// later run.
func withNames(in conversation.Inbound) enclosed {
	var parts []part
	for _, attachment := range in.Attachments {
		p := named(attachment)
		if attachment.Ref != "" {
			p.file.Source = &conversation.FileSource{Channel: in.Channel(), Attachment: attachment}
		}
		parts = append(parts, p)
	}
	return enclose(in.Text, parts)
}

// named returns a file of which only the name is known.
func named(attachment conversation.Attachment) part {
	name := lineName(attachment.Name)
	p := part{file: conversation.File{Name: name, MediaType: mediaType(attachment.MediaType), Size: attachment.Size}}
	p.head = fmt.Sprintf("[file %s]", name)
	if attachment.Size > 0 {
		p.head = fmt.Sprintf("[file %s, %s, not shown]", name, files.Size(attachment.Size))
	}
	return p
}

// mediaType returns a media type without parameters.
func mediaType(declared string) string {
	name, _, _ := strings.Cut(declared, ";")
	return strings.TrimSpace(name)
}

// lineName returns the name of a file as it stands in a line.
func lineName(name string) string {
	if name := plaintext.ShortLine(name, 100); name != "" {
		return name
	}
	return "without a name"
}
