package telegramtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Limits of sendMediaGroup: https://core.telegram.org/bots/api#sendmediagroup
const (
	minAlbum = 2
	maxAlbum = 10
)

// sendMediaGroup takes photos as one album, all of them or none.
func (s *Server) sendMediaGroup(w http.ResponseWriter, r *http.Request, p map[string]string) {
	photos, v := readAlbum(r, p)
	if v.passes() && p["reply_markup"] != "" {
		v = bad("reply markup is not allowed in media groups")
	}
	for i := range photos {
		if v.passes() && i == 0 {
			v = s.check(&photos[i], p)
		}
		photos[i].ReplyTo = photos[0].ReplyTo
		if v.passes() {
			v = s.ask(s.beforeHook(), photos[i])
		}
	}
	if !v.passes() {
		refuse(w, v)
		return
	}
	var results []map[string]any
	var after func(Message) Verdict
	album := fmt.Sprintf("album-%d", s.Calls("sendMediaGroup"))
	for i := range photos {
		photos[i].Document.Album = album
		after = s.take(&photos[i])
		results = append(results, map[string]any{"message_id": photos[i].ID, "date": photos[i].At.Unix(), "chat": map[string]any{"id": photos[i].Chat}, "media_group_id": album})
	}
	for _, m := range photos {
		if v := s.ask(after, m); !v.passes() {
			refuse(w, v)
			return
		}
	}
	answer(w, results)
}

// readAlbum reads the photos of an album and their captions.
func readAlbum(r *http.Request, p map[string]string) ([]Message, Verdict) {
	var media []struct {
		Type, Media, Caption string
		ParseMode            string `json:"parse_mode"`
	}
	if err := json.Unmarshal([]byte(p["media"]), &media); err != nil {
		return nil, bad("can't parse media JSON object")
	}
	if len(media) < minAlbum || len(media) > maxAlbum {
		return nil, bad(fmt.Sprintf("media group must have from %d to %d items", minAlbum, maxAlbum))
	}
	var photos []Message
	var fields []string
	for i, item := range media {
		m, v := parseText(map[string]string{"chat_id": p["chat_id"], "message_thread_id": p["message_thread_id"], "parse_mode": item.ParseMode}, item.Caption)
		field, attached := strings.CutPrefix(item.Media, "attach://")
		switch {
		case !v.passes():
			return nil, v
		case item.Type != "photo":
			return nil, bad("this server takes photos alone in media groups")
		case !attached || slices.Contains(fields, field):
			return nil, bad("wrong file identifier/HTTP URL specified")
		case units(m.Text) > maxCaption:
			return nil, bad("message caption is too long")
		}
		if m.Document, v = readDocument(r, field); v.passes() {
			v = m.Document.checkPhoto()
		}
		if !v.passes() {
			v.Description = fmt.Sprintf("failed to send message #%d with the error message %q", i+1, v.Description)
			return nil, v
		}
		fields, photos = append(fields, field), append(photos, m)
	}
	return photos, Verdict{}
}
