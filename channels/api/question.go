package api

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/kept"
	"parley/conversation/media"
	"parley/httpserver"
)

// question is a message of a program. It is answered once however often it is
// sent.
type question struct {
	key   conversation.Key
	id    string // ID of the message in its session: the program's, or one made here
	text  string
	files []file
	again bool // the message was sent before: only its answer is asked for

	options conversation.RunOptions
}

// newQuestion checks a message. idempotencyKey is the header of that name, "" for
// a message that is always new.
func newQuestion(key conversation.Key, idempotencyKey, text string, files []file) (question, error) {
	q := question{key: key, text: text, files: files}
	var err error
	if q.id, err = parseID(idempotencyKey); err != nil {
		return q, err
	}
	switch {
	case strings.TrimSpace(text) == "" && len(files) == 0:
		return q, problem(http.StatusUnprocessableEntity, "The message is empty.")
	case utf8.RuneCountInString(text) > hosted.MaxText:
		return q, problem(http.StatusUnprocessableEntity, "The text is too long for one message. Allowed: %d characters; send it as a file.", hosted.MaxText)
	}
	return q, checkFiles(files)
}

// idForm matches the ids of messages: characters that a URL holds as they are.
var idForm = regexp.MustCompile(`^[A-Za-z0-9._~:@+=-]{1,128}$`)

// idRule says what idForm matches.
const idRule = "1 to 128 letters, digits and . _ ~ : @ + = -"

// parseID reads an Idempotency-Key, with or without the quotes of
// https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/.
// A message without one gets a random id.
func parseID(header string) (string, error) {
	if header == "" {
		return strings.ToLower(rand.Text()), nil
	}
	id := header
	if len(id) > 1 && id[0] == '"' && id[len(id)-1] == '"' {
		id = id[1 : len(id)-1]
	}
	if !idForm.MatchString(id) {
		return "", problem(http.StatusBadRequest, "The Idempotency-Key %q is not allowed: "+idRule, shorten(header))
	}
	return id, nil
}

// source returns the id of the message in the store. An id has no spaces, so that
// no two messages share one.
func (q question) source() string { return q.id + " " + string(q.key) }

// location returns the path at which the answer can be asked for.
func (q question) location() string { return answerPath(q.key, q.id) }

// inbound returns the message as it is accepted. Its files are not stored yet.
func (q question) inbound() conversation.Inbound {
	in := conversation.Inbound{
		Key: q.key, SourceID: q.source(), Sender: conversation.Sender{ID: ChannelName}, Text: q.text, Keep: true,
		Options: q.options,
	}
	for _, f := range q.files {
		in.Attachments = append(in.Attachments, media.Attachment{Name: f.Name, MediaType: f.MediaType, Size: max(f.size, int64(len(f.Data))), Ref: f.ID})
	}
	return in
}

// take accepts a question. One that was accepted before must be the same. When it
// returns nil the question will be answered, whatever happens, and its files are
// no longer in memory, since the answer may take long.
func (c *Channel) take(ctx context.Context, q *question) error {
	if err := c.store(ctx, *q); err != nil {
		return err
	}
	q.files = nil
	httpserver.BodyDone(ctx)
	return nil
}

func (c *Channel) store(ctx context.Context, q question) error {
	if err := c.uploadedBefore(ctx, q.key, q.files); err != nil {
		return err
	}
	in := q.inbound()
	stored, err := c.isStored(ctx, in)
	if err != nil || stored {
		return err
	}
	for i, f := range q.files {
		if f.used {
			return problem(http.StatusUnprocessableEntity, "File %d has gone with another message: upload it again.", i+1)
		}
		if f.ID != "" {
			continue
		}
		if in.Attachments[i], err = c.uploads.Put(ctx, q.key, f.Name, f.MediaType, bytes.NewReader(f.Data)); err != nil {
			return err
		}
	}
	if err := c.gate.Accept(ctx, in); err != nil {
		return err
	}
	_, err = c.isStored(ctx, in) // it may have come twice at once
	return err
}

func (c *Channel) isStored(ctx context.Context, in conversation.Inbound) (bool, error) {
	known, err := kept.New(c.Store).Answer(ctx, ChannelName, in.SourceID)
	if errors.Is(err, kept.ErrNoAnswer) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	asked, err := in.Fingerprint()
	if err == nil && asked != known.Fingerprint {
		err = conversation.ErrReused
	}
	return true, err
}

// preference is how long a client prefers to wait for an answer
// (https://www.rfc-editor.org/rfc/rfc7240).
type preference struct {
	bounded bool
	wait    time.Duration
}

// parsePrefer reads the header Prefer. It ignores what it does not know, as the
// RFC says.
func parsePrefer(header string) (p preference) {
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "respond-async":
			p.bounded = true
		case "wait":
			seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err == nil {
				p = preference{bounded: true, wait: time.Duration(seconds) * time.Second}
			}
		}
	}
	return p
}

// errWaited says that the client prefers not to wait longer.
var errWaited = errors.New("waited as long as was asked for")

// limit returns a context that ends with errWaited when the client has waited as
// long as it wants to.
func (p preference) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if !p.bounded {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, p.wait, errWaited)
}
