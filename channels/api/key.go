package api

import (
	"context"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/catalog"
)

// maxKey is how long a session key may be, in bytes.
const maxKey = 256

// parseKey reads the key of a session of any channel.
func parseKey(text string) (conversation.Key, error) {
	channel, rest, found := strings.Cut(text, ":")
	switch {
	case !found || channel == "" || rest == "":
		return "", problem(http.StatusBadRequest, "The session key %q has no channel in front. Keys read CHANNEL:NAME, those of this API api:NAME.", shorten(text))
	case len(text) > maxKey:
		return "", problem(http.StatusBadRequest, "The session key has %d bytes. Allowed: %d.", len(text), maxKey)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl):
		return "", problem(http.StatusBadRequest, "The session key has bytes that are no text. Allowed: UTF-8 without control characters.")
	}
	return conversation.Key(text), nil
}

// keyOf reads the key of a session, or of a place that belongs to one since it has moved: the session keeps the key of its former
// place.
func (c *Channel) keyOf(ctx context.Context, text string) (conversation.Key, error) {
	key, err := parseKey(text)
	if err != nil || key.Channel() == ChannelName { // programs' sessions never move
		return key, err
	}
	return catalog.New(c.Store).KeyOf(ctx, key)
}

// ownKey reads the key of a session that programs may write to. Those of other
// channels belong to people, who must not get answers to what they have not
// asked.
func ownKey(text string) (conversation.Key, error) {
	key, err := parseKey(text)
	if err == nil && key.Channel() != ChannelName {
		return "", problem(http.StatusForbidden,
			"The session %s belongs to the channel %s, where people talk: programs may read it, but write only in sessions whose key begins with %q.",
			key, key.Channel(), ChannelName+":")
	}
	return key, err
}

// shorten returns text in one line, cut to a length that fits a message.
func shorten(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
