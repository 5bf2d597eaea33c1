package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"parley/channels"
	"parley/conversation"
	"parley/conversation/dbhealth"
	"parley/conversation/files"
	"parley/conversation/transcript"
)

// sendPart sends one part, with the bytes of its file. In place of a transcript that the chat refuses, a text
// says so.
func (q *queue) sendPart(ctx context.Context, d conversation.Delivery, p channels.Part) (id string, err error) {
	if p.File == nil || p.File.Data != nil || d.Transcript == nil {
		return q.sender.sink.Send(ctx, d, p)
	}
	release, err := q.holdFile(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	data, err := q.makeTranscript(ctx, *d.Transcript)
	switch {
	case err == nil:
	case errors.Is(err, conversation.ErrNotFound): // it was deleted, which the chat knows
		return "", &channels.SendError{Permanent: true, Closed: true, Err: err}
	case ctx.Err() != nil || dbhealth.IsTemporary(err):
		return "", &channels.SendError{Err: err}
	default:
		return "", &channels.LocalError{Words: fmt.Sprintf("⚠️ The file %s could not be made. The details are in the gateway's log.", d.Transcript.Name), Err: err}
	}
	p.File = &channels.File{Name: p.File.Name, Data: data}
	id, err = q.sender.sink.Send(ctx, d, p)
	if isRefused(err) {
		return q.sendInstead(ctx, d, p, fmt.Sprintf("⚠️ The file `%s` (%s) can't be sent here.", p.File.Name, files.Size(int64(len(data)))), err)
	}
	return id, err
}

// isReplyFile reports whether a part, as Split has made it, has the whole text of a reply as a file: other files
// are without their bytes.
func isReplyFile(p channels.Part) bool { return p.File != nil && p.File.Data != nil }

// makeTranscript returns the bytes of a transcript.
func (q *queue) makeTranscript(ctx context.Context, t conversation.Transcript) ([]byte, error) {
	c, place, seen, err := transcript.Read(ctx, q.sender.outbox, t)
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	writer := transcript.NewWriter(&data, transcript.Format(t.Format), c.Key, place)
	if err := transcript.Copy(writer, c, seen); err != nil {
		return nil, err
	}
	return data.Bytes(), writer.Close()
}
