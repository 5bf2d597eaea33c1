package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/bwmarrin/discordgo"

	"parley/channels"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/plaintext"
)

// platform is the name that people know the platform by.
const platform = "Discord"

// ref is the location of a file.
type ref struct {
	Channel string `json:"channel"`
	Message string `json:"message"`
	File    string `json:"file,omitempty"` // id of the attachment; "": the message itself is the file
	URL     string `json:"url,omitempty"`  // signed, good for a day or so
}

func (r ref) String() string {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err) // texts always have JSON
	}
	return string(raw)
}

// starterName is what a thread's first run calls the message that it was made
// from.
const starterName = "the message that this thread was made from"

// attachments are the files of a message, of what it forwards and replies to,
// and, when it is the first of a thread, the message that the thread was made
// from.
func (in *intake) attachments(m *message, p *place) []media.Attachment {
	var files []media.Attachment
	if in.wantsStarter(m, p) {
		at := ref{Channel: p.parent, Message: p.id}
		if parent := in.world.places[p.parent]; parent != nil && parent.isForum() {
			at.Channel = p.id
		}
		files = append(files, media.Attachment{Name: starterName, MediaType: "text/plain", Ref: at.String()})
	}
	add := func(list []attachment, channel, message string) {
		for _, a := range list {
			files = append(files, media.Attachment{
				Name: plaintext.OneLine(a.Filename), MediaType: a.ContentType, Size: max(0, a.Size),
				Ref: ref{Channel: channel, Message: message, File: a.ID, URL: a.URL}.String(),
			})
		}
	}
	if m.Type == typeReply && m.Referenced != nil {
		add(m.Referenced.Attachments, p.id, m.Referenced.ID)
	}
	for _, s := range m.Snapshots {
		add(s.Message.Attachments, p.id, m.ID)
	}
	add(m.Attachments, p.id, m.ID)
	return files
}

// wantsStarter reports whether the message is the first of a thread that may have
// been made from another message, whose id is then the thread's. The first
// message of a forum's post has it too, but stands in the thread.
func (in *intake) wantsStarter(m *message, p *place) bool {
	isOnMessage := p.kind == typePublicThread || p.kind == typeAnnouncementThread
	return in.ThreadContext && isOnMessage && !in.isKnown(p) && m.ID != p.id && p.parent != ""
}

// Fetch opens a file on Discord's own hosts, and nothing else. An address that is
// not good any more is asked for anew.
func (c *Channel) Fetch(ctx context.Context, file media.Attachment) (io.ReadCloser, error) {
	var from ref
	if err := json.Unmarshal([]byte(file.Ref), &from); err != nil || from.Message == "" {
		return nil, &files.GoneError{Words: "it is not known where it is"}
	}
	if from.File == "" {
		return c.fetchStarter(ctx, from)
	}
	body, err := c.download(ctx, from.URL)
	if !errors.Is(err, errExpired) {
		return body, err
	}
	fresh, err := c.messageOf(ctx, from)
	if err != nil {
		return nil, err
	}
	attached := fresh.Attachments
	for _, s := range fresh.Snapshots {
		attached = append(attached, s.Message.Attachments...)
	}
	i := slices.IndexFunc(attached, func(a attachment) bool { return a.ID == from.File })
	if i < 0 {
		return nil, &files.GoneError{Words: "it was deleted"}
	}
	return c.download(ctx, attached[i].URL)
}

// errExpired is the error of an address that Discord does not know, or no longer.
var errExpired error = &files.GoneError{Words: "it is no longer on Discord"}

func (c *Channel) download(ctx context.Context, address string) (io.ReadCloser, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || !slices.Contains(fileHosts, u.Host) {
		return nil, &files.GoneError{Words: "it is not on Discord's own servers"}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, errors.New("its address can't be read")
	}
	client := http.Client{Transport: c.transport, CheckRedirect: neverRedirect}
	resp, err := client.Do(req)
	if err != nil {
		return nil, channels.TransferError(ctx, platform)
	}
	if resp.StatusCode == http.StatusOK {
		return channels.Transfer(ctx, platform, resp.Body), nil
	}
	resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusForbidden, http.StatusNotFound:
		return nil, errExpired
	}
	return nil, fmt.Errorf("the answer was %s", resp.Status)
}

func (c *Channel) messageOf(ctx context.Context, at ref) (message, error) {
	var m message
	url := discordgo.EndpointChannelMessage(at.Channel, at.Message)
	limit := discordgo.EndpointChannelMessage(at.Channel, "") + "get"
	err := c.api.call(ctx, request{method: http.MethodGet, url: url, limit: limit}, &m)
	switch {
	case err == nil:
		return m, nil
	case isFinal(err):
		return m, &files.GoneError{Words: "its message is gone or hidden"}
	}
	return m, channels.TransferError(ctx, platform)
}

// fetchStarter returns the message that a thread was made from as a text.
func (c *Channel) fetchStarter(ctx context.Context, at ref) (io.ReadCloser, error) {
	m, err := c.messageOf(ctx, at)
	if err != nil {
		return nil, err
	}
	text := m.author().shown(m.Member) + " wrote:\n" + m.Content
	for _, a := range m.Attachments {
		text += "\n[file " + plaintext.OneLine(a.Filename) + "]"
	}
	return io.NopCloser(strings.NewReader(text)), nil
}
