package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"parley/channels"
	"parley/conversation"
	"parley/conversation/dbhealth"
	"parley/conversation/files"
	"parley/conversation/media"
)

// maxFiles is how many replies of a channel have files in memory at once: a transcript has
// a few megabytes, and the pictures of an album up to 20.
const maxFiles = 4

// holdFile waits until the files of a reply may be in memory. release ends that.
func (q *queue) holdFile(ctx context.Context) (release func(), err error) {
	select {
	case q.sender.files <- struct{}{}:
		return func() { <-q.sender.files }, nil
	case <-ctx.Done():
		return nil, &channels.SendError{Err: ctx.Err()}
	}
}

// split returns the parts of a delivery: those of its text, then one for each picture. A
// delivery whose text says nothing has only its pictures.
func (q *queue) split(d conversation.Delivery) []channels.Part {
	if len(d.Pictures) == 0 {
		return q.sender.sink.Split(d)
	}
	var parts []channels.Part
	if strings.TrimSpace(d.Text) != "" {
		text := d
		text.Sent = nil                                                                  // the pictures that were sent are no parts of the text
		if parts = q.sender.sink.Split(text); len(d.Sent) > len(parts)+len(d.Pictures) { // begun in another form
			parts = q.sender.sink.Split(d)
		}
	}
	for _, picture := range d.Pictures {
		parts = append(parts, channels.Part{Index: len(parts), File: &channels.File{Name: picture.Name, Picture: &picture}})
	}
	return parts
}

// sendNext sends the first of the parts, or as many of them as one request takes, and
// returns their ids.
func (q *queue) sendNext(ctx context.Context, d conversation.Delivery, parts []channels.Part) (ids []string, err error) {
	if !isPicture(parts[0]) {
		id, err := q.sendPart(ctx, d, parts[0])
		return []string{id}, err
	}
	release, err := q.holdFile(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	if ids, err = q.sendAlbum(ctx, d, parts); err == nil || !errors.Is(err, channels.ErrNoAlbum) {
		return ids, err
	}
	id, err := q.sendPicture(ctx, d, parts[0])
	return []string{id}, err
}

func isPicture(p channels.Part) bool { return p.File != nil && p.File.Picture != nil }

// sendAlbum sends the first pictures of the parts together. The error is ErrNoAlbum where
// they go one by one.
func (q *queue) sendAlbum(ctx context.Context, d conversation.Delivery, parts []channels.Part) ([]string, error) {
	sink, ok := q.sender.sink.(channels.AlbumSink)
	if !ok || q.apart == d.ID {
		return nil, channels.ErrNoAlbum
	}
	size := sink.AlbumSize(d, parts)
	if size < 2 {
		return nil, channels.ErrNoAlbum
	}
	album := make([]channels.Part, size)
	for i, p := range parts[:size] {
		file, err := q.loadPicture(ctx, *p.File.Picture)
		if isLocal(err) {
			return nil, channels.ErrNoAlbum
		}
		if err != nil {
			return nil, err
		}
		album[i] = channels.Part{Index: p.Index, File: file}
	}
	ids, err := sink.SendAlbum(ctx, d, album)
	if errors.Is(err, channels.ErrNoAlbum) {
		q.apart = d.ID
		q.sender.log.Debug("album refused, sending its pictures one by one", "session", d.Key, "delivery", d.ID, "error", err)
	}
	return ids, err
}

// sendPicture sends one picture. If the picture can't be read, or the platform refuses it, the chat
// gets a text in its place, and the next pictures follow.
func (q *queue) sendPicture(ctx context.Context, d conversation.Delivery, p channels.Part) (string, error) {
	picture := *p.File.Picture
	file, err := q.loadPicture(ctx, picture)
	if err == nil {
		var id string
		if id, err = q.sender.sink.Send(ctx, d, channels.Part{Index: p.Index, File: file}); err == nil {
			return id, nil
		}
		if !isRefused(err) {
			return "", err
		}
	} else if !isLocal(err) {
		return "", err
	}
	return q.sendInstead(ctx, d, p, pictureLost(picture, err), err)
}

// sendInstead sends words in place of a part with a file that was not taken because of cause. The error is cause
// if the words are refused as well.
func (q *queue) sendInstead(ctx context.Context, d conversation.Delivery, p channels.Part, words string, cause error) (string, error) {
	q.sender.log.Warn("file not sent, sending a notice instead", "session", d.Key, "delivery", d.ID, "file", p.File.Name, "error", cause)
	id, err := q.sendWords(ctx, d, p.Index, words)
	if isRefused(err) { // the chat takes nothing at all
		return "", cause
	}
	return id, err
}

// pictureLost is what the chat gets in place of a picture.
func pictureLost(picture media.Image, err error) string {
	if isLocal(err) {
		return fmt.Sprintf("⚠️ The picture `%s` can't be read. The details are in the gateway's log.", picture.Name)
	}
	return fmt.Sprintf("⚠️ The picture `%s` (%s) can't be sent here.", picture.Name, files.Size(int64(picture.Size)))
}

// sendWords sends words in place of the part of a delivery that has the index.
func (q *queue) sendWords(ctx context.Context, d conversation.Delivery, index int, words string) (string, error) {
	part := q.sender.sink.Split(conversation.Delivery{Key: d.Key, Address: d.Address, Text: words})[0]
	part.Index = index
	return q.sender.sink.Send(ctx, d, part)
}

// loadPicture returns the file of a picture with its bytes. The error is a LocalError where
// they can't be read.
func (q *queue) loadPicture(ctx context.Context, picture media.Image) (*channels.File, error) {
	data, err := q.sender.outbox.ImageData(ctx, picture)
	switch {
	case err == nil:
		return &channels.File{Name: picture.Name, Data: data, Picture: &picture}, nil
	case errors.Is(err, conversation.ErrNotFound):
		return nil, &channels.SendError{Permanent: true, Err: err}
	case ctx.Err() != nil || dbhealth.IsTemporary(err):
		return nil, &channels.SendError{Err: err}
	}
	return nil, &channels.LocalError{Err: err}
}
