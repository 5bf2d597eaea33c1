package agentloop

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/conversation/steps"
	"parley/filecontent"
	"parley/plaintext"
)

const (
	maxFileText  = files.InMessage
	maxFileTexts = 1 << 20 // bytes of the texts of all files of a message
)

// part is a file as its message has it: a picture, or lines in its text.
type part struct {
	image *media.Image // nil for a file
	file  media.File   // without the extents of its lines
	calls []steps.Step // model calls that were made to read the file
	section
}

// section is what the text of a message has about a file. head and foot are whole
// lines around the body, the text of a file that was read.
type section struct{ head, body, foot string }

// enclosed is what a message has to say, with its files.
type enclosed struct {
	text   string // with the sections of the files at its end
	images []media.Image
	files  []media.File
}

// enclose returns a text with files.
func enclose(text string, parts []part) enclosed {
	e := enclosed{text: text}
	room := maxFileTexts
	for _, p := range parts {
		if room -= len(p.body); room < 0 {
			p.section = section{head: files.NotShown(p.file.Name, p.file.Size)}
		}
		e.add(p)
	}
	return e
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
	p := part{file: media.File{ID: kept.ID, Name: name, MediaType: mediaType(kept.Declared), Size: kept.Size}}
	err := l.readInto(ctx, kept, &p)
	var problem *filecontent.Problem
	var delay *filecontent.Delay
	switch {
	case errors.As(err, &delay):
		p.file.Problem = delay.Words
		p.file.Again = l.deps.Store.Now().Add(max(laterWaits[0], delay.RetryAfter))
		p.head = fmt.Sprintf("[file %s, %s, can't be read now: %s; it will be tried again]", name, files.Size(kept.Size), delay.Words)
		return p, nil
	case errors.As(err, &problem):
		p.file.Problem = problem.Words
		p.head = fmt.Sprintf("[file %s, %s, can't be read: %s]", name, files.Size(kept.Size), problem.Words)
		return p, nil
	case err != nil && ctx.Err() != nil: // it takes too long for this run
		p.head = files.NotShown(name, kept.Size)
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
	switch {
	case kept.Size == 0:
		return &filecontent.Problem{Words: "it is empty"}
	case filecontent.IsFalsePicture(kept):
		return &filecontent.Problem{Words: falsePicture[kind]}
	case kind == filecontent.Picture:
		if l.router.setups.sees() {
			if err := l.router.content.CheckPicture(ctx, kept); err != nil {
				return err
			}
		}
		p.image = &media.Image{ID: kept.ID, Name: p.file.Name, MediaType: kept.MediaType, Size: int(kept.Size)}
		return nil
	case kind == filecontent.Recording && l.router.content.IsTranscribing():
		if err := l.transcribe(ctx, kept, p); err != nil {
			return err
		}
	case l.router.setups.sees() && isForeignPicture(kept):
		return &filecontent.Problem{Words: "the model sees pictures in JPEG, PNG, WebP and GIF alone"}
	case kind == filecontent.Other, kind == filecontent.Recording:
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
	if kind == filecontent.Recording {
		p.head = "[file " + p.file.Name + ", a recording, as transcribed]"
	}
	if content.Size > maxFileText {
		p.foot = fmt.Sprintf("[file %s goes on: it has %s, and read_file shows them]", p.file.Name, files.Size(content.Size))
	}
	return nil
}

// falsePicture says of a file that was sent as a picture what its bytes show, by its kind.
var falsePicture = map[filecontent.Kind]string{
	filecontent.Text:      "it is named or sent as a picture, but it is a text",
	filecontent.Document:  "it is named or sent as a picture, but it is a document",
	filecontent.Recording: "it is named or sent as a picture, but it is a recording",
	filecontent.Other:     "it is named or sent as a picture, but it is none",
}

// isForeignPicture reports whether a file is a picture of a kind that is not read.
func isForeignPicture(kept files.File) bool {
	switch {
	case strings.HasPrefix(kept.MediaType, "image/"):
		return !media.IsImageType(kept.MediaType)
	case kept.MediaType == "application/octet-stream":
		return strings.HasPrefix(mediaType(kept.Declared), "image/")
	}
	return false
}

// failed returns a file that could not be kept.
func failed(attachment media.Attachment, err error) part {
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

// callsOf returns the calls that were made to read files.
func callsOf(parts []part) []steps.Step {
	var calls []steps.Step
	for _, p := range parts {
		calls = append(calls, p.calls...)
	}
	return calls
}

// withNames returns a message with files that are only named. They are fetched by a
// later run.
func withNames(in conversation.Inbound) enclosed {
	var parts []part
	for _, attachment := range in.Attachments {
		p := named(attachment)
		if attachment.Ref != "" {
			p.file.Source = &media.Source{Channel: in.Channel(), Attachment: attachment}
		}
		parts = append(parts, p)
	}
	return enclose(in.Text, parts)
}

// named returns a file of which only the name is known.
func named(attachment media.Attachment) part {
	name := lineName(attachment.Name)
	p := part{file: media.File{Name: name, MediaType: mediaType(attachment.MediaType), Size: attachment.Size}}
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
