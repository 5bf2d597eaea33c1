package telegram

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	tgbotapi "github.com/go-telegram-bot-api/telegram-bot-api/v5"

	"parley/channels"
	"parley/conversation"
)

// maxAlbum is the most pictures of an album: https://core.telegram.org/bots/api#sendmediagroup
const maxAlbum = 10

// AlbumSize returns how many of the pictures Telegram shows as photos, up to the first that
// it does not. Buttons and messages for one person alone are not possible with an album.
func (c *Channel) AlbumSize(d conversation.Delivery, pictures []channels.Part) (n int) {
	to, err := parseAddress(d.Address)
	if err != nil || to.Alone != nil || c.keyboardOf(d, pictures[0]) != "" {
		return 0
	}
	for n < min(len(pictures), maxAlbum) && pictures[n].File.IsPhoto() {
		n++
	}
	return n
}

// SendAlbum sends photos as one album. Telegram refuses all of them for one that it can't
// show.
func (c *Channel) SendAlbum(ctx context.Context, d conversation.Delivery, pictures []channels.Part) (ids []string, err error) {
	to, err := parseAddress(d.Address)
	if err != nil {
		return nil, &channels.SendError{Permanent: true, Err: err}
	}
	m := outgoing{address: to, album: pictures}
	if pictures[0].Index > 0 {
		m.ReplyTo = 0
	} else {
		_, done, err := c.takePreview(ctx, to, d, false)
		if err != nil {
			return nil, err
		}
		done()
	}
	err = c.sendPatiently(ctx, &m, func() error {
		ids, err = c.postAlbum(ctx, m)
		return err
	})
	if refused := refusal(err); refused != nil && (refused.Code == http.StatusBadRequest || refused.Code == http.StatusRequestEntityTooLarge) {
		return nil, fmt.Errorf("%w: %w", channels.ErrNoAlbum, err)
	}
	return ids, err
}

// postAlbum makes the request for an album.
func (c *Channel) postAlbum(ctx context.Context, m outgoing) ([]string, error) {
	type photo struct {
		Type  string `json:"type"`
		Media string `json:"media"`
	}
	var photos []photo
	var files []tgbotapi.RequestFile
	for i, p := range m.album {
		name := "photo" + strconv.Itoa(i)
		photos = append(photos, photo{"photo", "attach://" + name})
		files = append(files, fileOf(name, p.File)...)
	}
	params := m.params()
	params["media"] = mustJSON(photos)
	var sent []struct {
		MessageID int64 `json:"message_id"`
	}
	ctx, cancel := channels.WithGrace(ctx)
	defer cancel()
	err := c.api.upload(ctx, "sendMediaGroup", params, files, &sent)
	if err != nil && !errors.Is(err, errResult) {
		return nil, err
	}
	ids := make([]string, len(m.album))
	for i := range ids {
		if ids[i] = unknownID; i < len(sent) {
			ids[i] = strconv.FormatInt(sent[i].MessageID, 10)
		}
	}
	return ids, nil
}
