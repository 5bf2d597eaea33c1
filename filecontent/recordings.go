package filecontent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"parley/conversation/files"
	"parley/llm"
)

// Transcriber writes down what recordings say. *llm.Transcriber is one.
type Transcriber interface {
	// Transcribe makes one request. The error is an *llm.TranscriptionError, or the cause
	// of ctx's end.
	Transcribe(ctx context.Context, r llm.Recording) (text string, attempt llm.Attempt, err error)
	// MaxFile returns how many bytes a recording may have.
	MaxFile() int64
	// Timeout returns how long one request may take.
	Timeout() time.Duration
}

// WithTranscriber makes the reader read recordings. Without it they can't be read.
func WithTranscriber(t Transcriber) Option {
	return func(r *Reader) { r.transcriber = t }
}

// Delay says why a file can't be read now, in words for the user and the model. Later it
// may be read.
type Delay struct {
	Words      string
	RetryAfter time.Duration // the wait that a server asks for, 0 for none
	Err        error         // for the log, without secrets
}

func (d *Delay) Error() string { return d.Words }

// extensions are the endings of the recordings that are transcribed, by what their bytes
// show. Servers know the format by the ending of the name:
// https://platform.openai.com/docs/api-reference/audio/createTranscription
var extensions = map[string]string{
	"audio/mpeg": "mp3", "audio/wave": "wav", "audio/flac": "flac", "audio/mp4": "m4a", "application/ogg": "ogg",
	"video/mp4": "mp4", "video/webm": "webm", "audio/aiff": "aiff", "audio/basic": "au", "audio/amr": "amr",
}

// transcribing lets two recordings of the process be transcribed at a time.
var transcribing = semaphore.NewWeighted(2)

// IsTranscribing reports whether recordings are transcribed at all.
func (r *Reader) IsTranscribing() bool { return r.transcriber != nil }

// TranscriptionTimeout returns how long a recording may take.
func (r *Reader) TranscriptionTimeout() time.Duration {
	if r.transcriber == nil {
		return 0
	}
	return r.transcriber.Timeout()
}

// Transcribe has a recording transcribed and keeps its words with it, unless they are
// kept already. It makes at most one request, and returns it. The error is a *Problem, a
// *Delay, one of the store, or the cause of ctx's end.
func (r *Reader) Transcribe(ctx context.Context, file files.File) (attempts []llm.Attempt, err error) {
	if r.transcriber == nil {
		return nil, &Problem{"recordings are not transcribed here"}
	}
	if most := r.transcriber.MaxFile(); file.Size > most {
		return nil, &Problem{fmt.Sprintf("it has %s, and recordings of up to %s are transcribed", files.Size(file.Size), files.Size(most))}
	}
	if _, made, err := r.files.Form(ctx, file, files.FormText); made || err != nil {
		return nil, err
	}
	if err := transcribing.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer transcribing.Release(1)
	if _, made, err := r.files.Form(ctx, file, files.FormText); made || err != nil { // meanwhile
		return nil, err
	}
	opened, err := r.files.Open(ctx, file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	text, attempt, err := r.transcriber.Transcribe(ctx, llm.Recording{Name: "recording." + extensions[file.MediaType], Size: file.Size, Data: opened.Whole()})
	attempts = []llm.Attempt{attempt}
	var failed *llm.TranscriptionError
	switch {
	case errors.As(err, &failed) && failed.Refused:
		return attempts, &Problem{failed.Words}
	case errors.As(err, &failed):
		return attempts, &Delay{failed.Words, failed.RetryAfter, failed.Err}
	case err != nil:
		return attempts, err
	}
	form := files.Form{Kind: files.FormText, MediaType: "text/plain", Data: []byte(text)}
	if text == "" {
		form.Problem = "no words can be heard in it"
	}
	return attempts, r.files.AddForm(ctx, file, form)
}

// recording opens the words of a recording, which is transcribed once.
func (r *Reader) recording(ctx context.Context, file files.File) (*Content, error) {
	if _, err := r.Transcribe(ctx, file); err != nil {
		return nil, err
	}
	form, _, err := r.files.Form(ctx, file, files.FormText)
	if err != nil {
		return nil, err
	}
	if form.Problem != "" {
		return nil, &Problem{form.Problem}
	}
	return contentOf(form), nil
}
