package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"parley/channels"
	"parley/conversation"
	"parley/conversation/dbhealth"
	"parley/conversation/transcript"
)

// sendPart sends one part, with the bytes of its file.
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
	case errors.Is(err, conversation.ErrNotFound):
		return "", &channels.SendError{Permanent: true, Err: err}
	case ctx.Err() != nil || dbhealth.IsTemporary(err):
		return "", &channels.SendError{Err: err}
	default:
		return "", &channels.LocalError{Words: fmt.Sprintf("⚠️ The file %s could not be made. The details are in the gateway's log.", d.Transcript.Name), Err: err}
	}
	p.File = &channels.File{Name: p.File.Name, Data: data}
	return q.sender.sink.Send(ctx, d, p)
}

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
