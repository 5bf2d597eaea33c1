package api

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"parley/conversation"
)

// defaultSession is where those talk who name no session.
const defaultSession = ChannelName + ":default"

// completionRequest has the fields of a request that count; all others are
// ignored.
type completionRequest struct {
	Model    string `json:"model"`
	User     string `json:"user"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"` // read of the one that counts: clients send all that was said before
	} `json:"messages"`
	StreamOptions *struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// content is a text, or a list of parts.
type content struct {
	text  string
	files []file
}

type part struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	ImageURL struct {
		URL string `json:"url"`
	} `json:"image_url"`
	File struct {
		Name string `json:"filename"`
		Data string `json:"file_data"`
	} `json:"file"`
}

// parseContent reads the content of a message.
func parseContent(raw json.RawMessage) (c content, err error) {
	var parts []part
	switch {
	case len(raw) == 0: // like null, no text
		return c, nil
	case raw[0] == '[':
		err = json.Unmarshal(raw, &parts)
	default:
		err = json.Unmarshal(raw, &c.text)
	}
	if err != nil {
		return c, unreadable(err)
	}
	var texts []string
	for _, p := range parts {
		var f file
		var err error
		switch p.Type {
		case "text":
			texts = append(texts, p.Text)
			continue
		case "image_url":
			f, err = fromDataURL(p.ImageURL.URL, "")
		case "file":
			f, err = fromDataURL(p.File.Data, p.File.Name)
		default:
			err = problem(http.StatusBadRequest, "A part of a message has the type %q. Allowed: text, image_url, file.", shorten(p.Type))
		}
		if err != nil {
			return c, err
		}
		c.files = append(c.files, f)
	}
	if parts != nil {
		c.text = strings.Join(texts, "\n\n")
	}
	return c, nil
}

func unreadable(err error) error {
	return problem(http.StatusBadRequest, "The body is no request for a chat completion: %s.", shorten(err.Error()))
}

func readCompletion(r *http.Request) (request completionRequest, err error) {
	body, err := io.ReadAll(r.Body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return request, problem(http.StatusRequestEntityTooLarge, "The body is too large. Allowed: %d bytes.", large.Limit)
	case err != nil:
		return request, problem(http.StatusBadRequest, "The body can't be read: %s.", err)
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return request, unreadable(err)
	}
	return request, nil
}

// question returns the newest message of the user, for the session that the
// request names.
func (request completionRequest) question(header http.Header) (question, error) {
	key, err := completionSession(header.Get("X-Session-Key"), request.User)
	if err != nil {
		return question{}, err
	}
	for _, m := range slices.Backward(request.Messages) {
		if m.Role == "user" {
			said, err := parseContent(m.Content)
			if err != nil {
				return question{}, err
			}
			return newQuestion(key, header.Get("Idempotency-Key"), said.text, said.files)
		}
	}
	return question{}, problem(http.StatusBadRequest, "messages has none with the role user.")
}

// completionSession returns the session that the header, or else the user, names.
// A name without a channel is a session of this channel.
func completionSession(header, user string) (conversation.Key, error) {
	for _, name := range []string{header, user} {
		switch {
		case name == "":
		case strings.Contains(name, ":"):
			return ownKey(name)
		default:
			return ownKey(ChannelName + ":" + name)
		}
	}
	return defaultSession, nil
}
