package discordtest

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Limits of a message: https://discord.com/developers/docs/resources/message#create-message
// Lengths are in Unicode code points, as a developer of Discord's says in
// https://github.com/discord/discord-api-docs/issues/1315
const (
	maxContent = 2000
	maxNonce   = 25
	maxEmbeds  = 10
)

// draft is a message as a client sends it, new or edited. What is nil was not sent.
type draft struct {
	Content     *string         `json:"content"`
	Nonce       json.RawMessage `json:"nonce"`
	Enforce     bool            `json:"enforce_nonce"`
	TTS         bool            `json:"tts"`
	Embeds      json.RawMessage `json:"embeds"`
	Allowed     json.RawMessage `json:"allowed_mentions"`
	Components  json.RawMessage `json:"components"`
	Attachments json.RawMessage `json:"attachments"`
	Flags       *int            `json:"flags"`
	Reference   *struct {
		Message string `json:"message_id"`
		Channel string `json:"channel_id"`
		Fail    *bool  `json:"fail_if_not_exists"`
	} `json:"message_reference"`

	files []File
	raw   json.RawMessage
}

// readDraft reads the body and checks what does not depend on the place.
// allowedFlags are those that may be set in this request.
func (r *request) readDraft(allowedFlags int) (*draft, error) {
	var d draft
	if err := r.decode(&d); err != nil {
		return nil, err
	}
	d.raw = r.body
	for i := range maxFiles {
		if f, ok := r.files[i]; ok {
			d.files = append(d.files, f)
		}
	}
	if len(d.files) != len(r.files) {
		return nil, invalid("files", "FILE_INDEX_INVALID", "Files are numbered from 0 to %d.", maxFiles-1)
	}
	return &d, d.check(allowedFlags)
}

func (d *draft) check(allowedFlags int) error {
	if d.Content != nil && utf8.RuneCountInString(*d.Content) > maxContent {
		return invalid("content", "BASE_TYPE_MAX_LENGTH", "Must be %d or fewer in length.", maxContent)
	}
	if wrong := d.flags() &^ allowedFlags; wrong != 0 {
		return invalid("flags", "MESSAGE_FLAGS_INVALID", "Flags %d may not be set here.", wrong)
	}
	if _, err := readAllowed(d.Allowed); err != nil {
		return err
	}
	if _, err := d.nonce(); err != nil {
		return err
	}
	if err := checkEmbeds(d.Embeds); err != nil {
		return err
	}
	return checkComponents(d.Components)
}

// nonce returns the text of the nonce, which may be a number; "" when absent.
func (d *draft) nonce() (string, error) {
	if absent(d.Nonce) {
		return "", nil
	}
	var text string
	if json.Unmarshal(d.Nonce, &text) == nil {
		if utf8.RuneCountInString(text) > maxNonce {
			return "", invalid("nonce", "BASE_TYPE_MAX_LENGTH", "Must be %d or fewer in length.", maxNonce)
		}
		return text, nil
	}
	var n int64
	if json.Unmarshal(d.Nonce, &n) != nil {
		return "", invalid("nonce", "NONCE_TYPE_INVALID", "Must be a string or an integer.")
	}
	return string(d.Nonce), nil
}

// empty reports whether the message would show nothing.
func (d *draft) empty() bool {
	return strings.TrimSpace(d.text()) == "" && len(d.files) == 0 && absent(d.Embeds)
}

func (d *draft) flags() int {
	if d.Flags == nil {
		return 0
	}
	return *d.Flags
}

// keptFiles returns the ids of the files that an edit leaves in the message, if it lists
// them; those of new files are their indexes.
// https://discord.com/developers/docs/reference#editing-message-attachments
func (d *draft) keptFiles() (ids []string, given bool) {
	var list []struct {
		ID json.RawMessage `json:"id"`
	}
	if len(d.Attachments) == 0 || json.Unmarshal(d.Attachments, &list) != nil {
		return nil, false
	}
	for _, f := range list {
		ids = append(ids, strings.Trim(string(f.ID), `"`))
	}
	return ids, true
}

func (d *draft) text() string {
	if d.Content == nil {
		return ""
	}
	return *d.Content
}

// version returns the draft as a version of a message. Discord trims white space at both
// ends.
func (d *draft) version(isReply bool) Version {
	allowed, err := readAllowed(d.Allowed)
	if err != nil {
		allowed = everybody // check refused it before
	}
	text := strings.TrimSpace(d.text())
	v := Version{Content: text, Pinged: allowed.pings(text, isReply), Raw: d.raw}
	if !absent(d.Allowed) {
		v.AllowedMentions = d.Allowed
	}
	return v
}

// absent reports whether a field was left out, is null, or is an empty list.
func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || string(raw) == "null" || string(raw) == "[]"
}

// checkEmbeds checks the lengths of the usual fields:
// https://discord.com/developers/docs/resources/message#embed-object-embed-limits
func checkEmbeds(raw json.RawMessage) error {
	if absent(raw) {
		return nil
	}
	var embeds []struct{ Title, Description string }
	if err := json.Unmarshal(raw, &embeds); err != nil {
		return invalid("embeds", "LIST_TYPE_CONVERT", "%v", err)
	}
	total := 0
	for _, e := range embeds {
		title, description := utf8.RuneCountInString(e.Title), utf8.RuneCountInString(e.Description)
		total += title + description
		if title > 256 {
			return invalid("embeds.0.title", "BASE_TYPE_MAX_LENGTH", "Must be 256 or fewer in length.")
		}
		if description > 4096 {
			return invalid("embeds.0.description", "BASE_TYPE_MAX_LENGTH", "Must be 4096 or fewer in length.")
		}
	}
	if len(embeds) > maxEmbeds || total > 6000 {
		return invalid("embeds", "MAX_EMBED_SIZE_EXCEEDED", "Embeds are at most %d, of 6000 characters together.", maxEmbeds)
	}
	return nil
}
