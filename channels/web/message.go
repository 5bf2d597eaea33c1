package web

import (
	"bytes"
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
	"unicode/utf8"

	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/kept"
	"parley/conversation/media"
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

// message reads a message from its form, and stores its files as they come.
func (c *Channel) message(r *http.Request, name string) (conversation.Inbound, error) {
	key := keyOf(name)
	fields, attachments, err := c.form(r, key)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return conversation.Inbound{}, refusal(fmt.Sprintf("The message is too large: together with its files it can have up to %s.", size(c.maxBody())))
	case err != nil:
		return conversation.Inbound{}, err
	}
	text := strings.TrimSpace(strings.ReplaceAll(fields["text"], "\r\n", "\n"))
	in := c.inbound(name, fields["id"], text)
	in.Attachments = attachments
	if text == "" && len(attachments) == 0 {
		return in, refusal("There is nothing to send.")
	}
	return in, checkText(text)
}

func checkText(text string) error {
	if utf8.RuneCountInString(text) > hosted.MaxText {
		return tooLong
	}
	return nil
}

// incomplete is why a message is not accepted whose request ends early.
const incomplete = refusal("The message did not arrive completely. Send it again.")

// form reads the texts of a form, and stores its files.
func (c *Channel) form(r *http.Request, key conversation.Key) (fields map[string]string, list []media.Attachment, err error) {
	parts, err := r.MultipartReader()
	if err != nil { // of a button, where the browser runs no script
		err := r.ParseForm()
		return map[string]string{"text": r.PostForm.Get("text"), "id": r.PostForm.Get("id")}, nil, err
	}
	fields = map[string]string{}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return fields, list, nil
		}
		if err != nil {
			return nil, nil, arrived(err)
		}
		if part.FormName() != "file" {
			raw, err := io.ReadAll(io.LimitReader(part, hosted.MaxText*(utf8.UTFMax+1)))
			text := strings.ReplaceAll(string(raw), "\r\n", "\n")
			if err == nil {
				err = checkText(strings.TrimSpace(text))
			}
			if err != nil {
				return nil, nil, arrived(err)
			}
			fields[part.FormName()] = text
			continue
		}
		attachment, err := c.upload(r.Context(), key, part, len(list))
		if err != nil {
			return nil, nil, err
		}
		if attachment.Ref != "" {
			list = append(list, attachment)
		}
	}
}

// arrived returns what is said of an error while a form was read.
func arrived(err error) error {
	var large *http.MaxBytesError
	var why refusal
	if errors.As(err, &large) || errors.As(err, &why) {
		return err
	}
	return incomplete
}

// inbound returns a text as it is accepted. A text without an id gets one of its
// own.
func (c *Channel) inbound(name, id, text string) conversation.Inbound {
	if !sourceForm.MatchString(id) {
		id = newName()
	}
	return conversation.Inbound{
		Key: keyOf(name), SourceID: name + "/" + id, Sender: conversation.Sender{ID: personID, Name: "you"},
		Text: text, Keep: true,
	}
}

// upload stores the next file of a form that has brought so many. A form without a file
// sends an empty one without a name, which gives none.
func (c *Channel) upload(ctx context.Context, key conversation.Key, part *multipart.Part, before int) (media.Attachment, error) {
	name := fileName(part.FileName())
	body := &received{Reader: part}
	attachment, err := c.uploads.Put(ctx, key, name, part.Header.Get("Content-Type"), body)
	switch {
	case body.err != nil:
		return media.Attachment{}, arrived(body.err)
	case errors.Is(err, files.ErrTooLarge):
		return media.Attachment{}, refusal(fmt.Sprintf("%s is too large: a file may have %s.", name, size(c.MaxFile)))
	case errors.Is(err, conversation.ErrInvalid) && part.FileName() == "":
		return media.Attachment{}, nil
	case errors.Is(err, conversation.ErrInvalid):
		return media.Attachment{}, refusal(name + " is empty.")
	case err == nil && before >= hosted.MaxFiles:
		return media.Attachment{}, refusal(fmt.Sprintf("At most %d files go with one message.", hosted.MaxFiles))
	}
	return attachment, err
}

// received notes why a part of a form could not be read.
type received struct {
	io.Reader
	err error
}

func (r *received) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// maxBody returns how many bytes a message may have with its files.
func (c *Channel) maxBody() int64 { return 4*c.MaxFile + 1<<20 }

// fileName returns the last element of a name, in one line and not too long.
func fileName(name string) string {
	name = cmp.Or(hosted.FileName(name), "file")
	return string([]rune(name)[:min(utf8.RuneCountInString(name), 100)])
}

// takeEdit accepts another text in place of a message. The run that answers it begins a
// branch of the conversation there.
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
	c.edits.Lock() // so that nothing is said between the checks and the edit, which a page may send twice
	defer c.edits.Unlock()
	if _, err := kept.New(c.Store).Answer(r.Context(), channelName, in.SourceID); !errors.Is(err, kept.ErrNoAnswer) {
		return err // it was taken, and only its answer was lost
	}
	active, old, err := c.editable(r.Context(), name, conversation.MessageID{Conversation: r.PostFormValue("conversation"), Seq: seq})
	if err != nil {
		return err
	}
	in.Replaces = conversation.MessageID{Conversation: active.ID, Seq: old.Seq}
	if in.Attachments, err = c.again(r.Context(), in.Key, old); err != nil {
		return err
	}
	return c.gate.Accept(r.Context(), in)
}

// editable returns a message that can be edited, and its conversation: a person's, which
// was answered alone, while nothing waits. A message of another conversation than the active one, from before
// somebody began a new one, is not there any more.
func (c *Channel) editable(ctx context.Context, name string, of conversation.MessageID) (active conversation.Conversation, m conversation.Message, err error) {
	waiting, err := c.Store.Inbox(ctx, keyOf(name), 1)
	if err != nil {
		return active, m, err
	}
	if len(waiting) > 0 {
		return active, m, refusal("The assistant is still working on a later message. Stop it first, or wait for its answer.")
	}
	active, err = c.Store.Active(ctx, keyOf(name))
	if err != nil {
		return active, m, err
	}
	around := conversation.MessageQuery{Conversation: active.ID, View: conversation.ViewTalk, After: of.Seq - 1, Forward: true, Limit: 2}
	page, err := c.Store.Messages(ctx, around)
	if err != nil {
		return active, m, err
	}
	if cmp.Or(of.Conversation, active.ID) != active.ID || len(page.Messages) == 0 || page.Messages[0].Seq != of.Seq || page.Messages[0].Role != conversation.RoleUser {
		return active, m, refusal("This message is not there any more. Load the page again.")
	}
	before, err := c.Store.Messages(ctx, conversation.MessageQuery{Conversation: active.ID, View: conversation.ViewTalk, Before: of.Seq, Limit: 1})
	if err != nil {
		return active, m, err
	}
	for _, neighbour := range append(page.Messages[1:], before.Messages...) {
		if neighbour.Role == conversation.RoleUser {
			return active, m, refusal("Several messages were answered together and can't be edited separately. Send a new message instead.")
		}
	}
	return active, page.Messages[0], nil
}

// again stores the files of a message once more, for the message that replaces
// it.
func (c *Channel) again(ctx context.Context, key conversation.Key, m conversation.Message) ([]media.Attachment, error) {
	var list []media.Attachment
	add := func(name, mediaType string, body io.Reader) error {
		attachment, err := c.uploads.Put(ctx, key, name, mediaType, body)
		list = append(list, attachment)
		return err
	}
	for _, image := range m.Images {
		data, err := c.Store.ImageData(ctx, image)
		if err == nil {
			err = add(image.Name, image.MediaType, bytes.NewReader(data))
		}
		if err != nil {
			return nil, err
		}
	}
	_, texts := m.SplitFiles()
	for n, file := range m.Files {
		body, err := hosted.OpenFile(ctx, c.Store, key, file)
		switch {
		case err != nil:
			return nil, err
		case body != nil:
			err = errors.Join(add(file.Name, file.MediaType, body), body.Close())
		case n < len(texts) && texts[n] != "": // of an earlier version
			err = add(file.Name, "text/plain", strings.NewReader(texts[n]))
		}
		if err != nil {
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
	case httpserver.WantsPage(r):
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
