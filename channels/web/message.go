package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"parley/channels/hosted"
	"parley/conversation"
	"parley/httpserver"
)

// refusal is the reason why a message is not accepted, written for its author.
type refusal string

func (r refusal) Error() string { return string(r) }

var tooLong = refusal(fmt.Sprintf("The text is too long: a message can have up to %d characters. Send it as a file instead.", hosted.MaxText))

// sourceForm matches the ids that a page gives its messages. A message with an id
// is taken once, however often it is sent.
var sourceForm = regexp.MustCompile(`^[A-Za-z0-9-]{8,64}$`)

// takeMessage accepts what a person has written, or the command of a button.
func (c *Channel) takeMessage(w http.ResponseWriter, r *http.Request) {
	name, ok := chatName(w, r)
	if !ok {
		return
	}
	in, err := c.message(r, name)
	if err == nil {
		c.edits.RLock()
		err = c.gate.Accept(r.Context(), in)
		c.edits.RUnlock()
	}
	c.answerSent(w, r, name, err)
}

// message reads a message from its form, and stores its files.
func (c *Channel) message(r *http.Request, name string) (conversation.Inbound, error) {
	if err := r.ParseMultipartForm(hosted.MaxBody); err != nil && !errors.Is(err, http.ErrNotMultipart) {
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			return conversation.Inbound{}, refusal(fmt.Sprintf("The message is too large: together with its files it can have up to %s.", size(hosted.MaxBody)))
		}
		return conversation.Inbound{}, refusal("The message did not arrive completely. Send it again.")
	}
	text := strings.TrimSpace(strings.ReplaceAll(r.PostFormValue("text"), "\r\n", "\n"))
	in := c.inbound(name, r.PostFormValue("id"), text)
	var sent []*multipart.FileHeader
	if r.MultipartForm != nil {
		for _, header := range r.MultipartForm.File["file"] {
			if header.Filename != "" || header.Size > 0 { // a form without a file sends an empty one
				sent = append(sent, header)
			}
		}
	}
	switch {
	case text == "" && len(sent) == 0:
		return in, refusal("There is nothing to send.")
	case utf8.RuneCountInString(text) > hosted.MaxText:
		return in, tooLong
	case len(sent) > hosted.MaxFiles:
		return in, refusal(fmt.Sprintf("At most %d files go with one message.", hosted.MaxFiles))
	}
	for _, header := range sent {
		attachment, err := c.upload(r.Context(), in.Key, header)
		if err != nil {
			return in, err
		}
		in.Attachments = append(in.Attachments, attachment)
	}
	return in, nil
}

// inbound returns a text as it is accepted. A text without an id gets one of its
// own.
func (c *Channel) inbound(name, id, text string) conversation.Inbound {
	if !sourceForm.MatchString(id) {
		id = newName()
	}
	return conversation.Inbound{
		Key: keyOf(name), SourceID: name + "/" + id, Sender: conversation.Sender{ID: "web"},
		Text: text, At: time.Now(), Keep: true,
	}
}

func (c *Channel) upload(ctx context.Context, key conversation.Key, header *multipart.FileHeader) (conversation.Attachment, error) {
	name := fileName(header.Filename)
	if header.Size > hosted.MaxFile {
		return conversation.Attachment{}, refusal(fmt.Sprintf("%s is too large: a file may have %s, and it has %s.", name, size(hosted.MaxFile), size(header.Size)))
	}
	opened, err := header.Open()
	if err != nil {
		return conversation.Attachment{}, err
	}
	defer opened.Close()
	data, err := io.ReadAll(opened)
	if err != nil {
		return conversation.Attachment{}, err
	}
	if len(data) == 0 {
		return conversation.Attachment{}, refusal(name + " is empty.")
	}
	return c.uploads.Put(ctx, key, name, hosted.MediaType(header.Header.Get("Content-Type"), data), data)
}

// fileName returns the last element of a name, in one line and not too long.
func fileName(name string) string {
	name = cmp.Or(hosted.FileName(name), "file")
	return string([]rune(name)[:min(utf8.RuneCountInString(name), 100)])
}

// takeEdit accepts another text in place of the last message. The run that answers it
// takes the last turn out of the conversation.
func (c *Channel) takeEdit(w http.ResponseWriter, r *http.Request) {
	name, ok := chatName(w, r)
	if !ok {
		return
	}
	c.answerSent(w, r, name, c.edit(r, name))
}

func (c *Channel) edit(r *http.Request, name string) error {
	text := strings.TrimSpace(strings.ReplaceAll(r.PostFormValue("text"), "\r\n", "\n"))
	seq, err := strconv.ParseInt(r.PostFormValue("seq"), 10, 64)
	switch {
	case err != nil:
		return refusal("The request names no message to edit.")
	case text == "":
		return refusal("There is nothing to send.")
	case utf8.RuneCountInString(text) > hosted.MaxText:
		return tooLong
	}
	in := c.inbound(name, r.PostFormValue("id"), text)
	if _, err := c.Store.Answer(r.Context(), channelName, in.SourceID); !errors.Is(err, conversation.ErrNoAnswer) {
		return err // it was taken, and only its answer was lost
	}
	c.edits.Lock() // so that nothing is said between the check and the edit
	defer c.edits.Unlock()
	active, last, err := c.lastAlone(r.Context(), name, seq)
	if err != nil {
		return err
	}
	in.Replaces = conversation.MessageID{Conversation: active.ID, Seq: last.Seq}
	if in.Attachments, err = c.again(r.Context(), in.Key, last); err != nil {
		return err
	}
	return c.gate.Accept(r.Context(), in)
}

// lastAlone returns the message that can be edited, and its conversation: the last one
// of the chat, where it was answered alone and nothing waits behind it.
func (c *Channel) lastAlone(ctx context.Context, name string, seq int64) (active conversation.Conversation, last conversation.Message, err error) {
	waiting, err := c.Store.Inbox(ctx, keyOf(name), 1)
	if err != nil {
		return active, last, err
	}
	if len(waiting) > 0 {
		return active, last, refusal("The assistant is still working on a later message. Stop it first, or wait for its answer.")
	}
	active, err = c.Store.Active(ctx, keyOf(name))
	if err != nil {
		return active, last, err
	}
	page, err := c.Store.Messages(ctx, conversation.MessageQuery{Conversation: active.ID, Turns: 1})
	if err != nil {
		return active, last, err
	}
	var said []conversation.Message
	for _, m := range page.Messages {
		if m.Role == conversation.RoleUser {
			said = append(said, m)
		}
	}
	switch {
	case len(said) == 0 || said[len(said)-1].Seq != seq:
		return active, last, refusal("There are newer messages; only the last one can be edited.")
	case len(said) > 1:
		return active, last, refusal("Several messages were answered together and can't be edited separately. Send a new message instead.")
	}
	return active, said[0], nil
}

// again stores the files of a message once more, for the message that replaces
// it.
func (c *Channel) again(ctx context.Context, key conversation.Key, m conversation.Message) ([]conversation.Attachment, error) {
	var list []conversation.Attachment
	add := func(name, mediaType string, data []byte) error {
		attachment, err := c.uploads.Put(ctx, key, name, mediaType, data)
		list = append(list, attachment)
		return err
	}
	for _, image := range m.Images {
		data, err := c.Store.ImageData(ctx, image)
		if err == nil {
			err = add(image.Name, image.MediaType, data)
		}
		if err != nil {
			return nil, err
		}
	}
	_, texts := m.SplitFiles()
	for n, file := range m.Files {
		data, err := hosted.FileData(ctx, c.Store, key, file)
		switch {
		case err != nil:
			return nil, err
		case data == nil && n < len(texts) && texts[n] != "": // of an earlier version
			data, file.MediaType = []byte(texts[n]), "text/plain"
		case data == nil:
			continue // it was only named
		}
		if err := add(file.Name, file.MediaType, data); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// answerSent answers the request of a message: with a status for a script, and
// with a redirect to the chat for a browser without one.
func (c *Channel) answerSent(w http.ResponseWriter, r *http.Request, name string, err error) {
	var why refusal
	switch {
	case errors.As(err, &why):
		httpserver.Problem(w, r, http.StatusUnprocessableEntity, string(why))
	case err != nil:
		c.fail(w, r, err)
	case strings.Contains(r.Header.Get("Accept"), "text/html"):
		http.Redirect(w, r, "/chat/"+name, http.StatusSeeOther)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// size returns a number of bytes as people write it.
func size(bytes int64) string {
	switch {
	case bytes < 1<<10:
		return strconv.FormatInt(bytes, 10) + " bytes"
	case bytes < 1<<20:
		return strconv.FormatInt(bytes>>10, 10) + " KiB"
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/(1<<20)), ".0") + " MiB"
}
