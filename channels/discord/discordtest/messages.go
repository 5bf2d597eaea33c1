package discordtest

import (
	"slices"
	"strconv"
	"strings"
)

// messageOf is the message that a request is about.
func (s *Server) messageOf(r *request) (*channel, *Message, error) {
	c, err := s.place(r.PathValue("channel"))
	if err != nil {
		return nil, nil, err
	}
	m := s.messages[r.PathValue("message")]
	if m == nil || m.Deleted || m.Channel != c.ID || m.Ephemeral() {
		return nil, nil, UnknownMessage
	}
	return c, m, nil
}

func (s *Server) getMessage(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, m, err := s.messageOf(r)
	if err != nil {
		return nil, err
	}
	if !s.may(c, ReadMessageHistory) {
		return nil, MissingAccess
	}
	return s.wire(m, s.readable()), nil
}

// getMessages lists messages newest first, unless Foreign; "after" gives those right after it.
// https://discord.com/developers/docs/resources/message#get-channel-messages
func (s *Server) getMessages(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.place(r.PathValue("channel"))
	if err != nil {
		return nil, err
	}
	if c.Type == ForumChannel || c.Type == CategoryChannel {
		return nil, NonTextChannel
	}
	from, to, err := c.page(r)
	if err != nil {
		return nil, err
	}
	list := []wireMessage{}
	if !s.may(c, ReadMessageHistory) {
		return list, nil
	}
	for _, m := range c.messages[from:to] {
		list = append(list, s.wire(m, s.readable()))
	}
	if !s.config.Foreign {
		slices.Reverse(list)
	}
	return list, nil
}

// page is the range of the channel's messages that the query asks for.
func (c *channel) page(r *request) (from, to int, err error) {
	query := r.URL.Query()
	limit := 50
	if text := query.Get("limit"); text != "" {
		limit, err = strconv.Atoi(text)
		if err != nil || limit < 1 || limit > 100 {
			return 0, 0, invalid("limit", "NUMBER_TYPE_MAX", "int value should be between 1 and 100.")
		}
	}
	var by, id string
	for _, name := range []string{"around", "before", "after"} {
		value := query.Get(name)
		if value == "" {
			continue
		}
		if _, err := strconv.ParseUint(value, 10, 64); err != nil {
			return 0, 0, invalid(name, "NUMBER_TYPE_COERCE", "Value %q is not snowflake.", value)
		}
		if by != "" {
			return 0, 0, invalid(name, "QUERY_EXCLUSIVE", "around, before and after are mutually exclusive.")
		}
		by, id = name, value
	}
	n := len(c.messages)
	i, found := slices.BinarySearchFunc(c.messages, &Message{ID: id}, byID)
	switch {
	case by == "after" && found:
		return i + 1, min(i+1+limit, n), nil
	case by == "after":
		return i, min(i+limit, n), nil
	case by == "before":
		return max(0, i-limit), i, nil
	case by == "around":
		from = max(0, i-limit/2)
		return from, min(from+limit, n), nil
	}
	return max(0, n-limit), n, nil
}

func (s *Server) editMessage(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, m, err := s.messageOf(r)
	if err != nil {
		return nil, err
	}
	d, err := r.readDraft(suppressEmbedsFlag)
	switch {
	case err != nil:
		return nil, err
	case m.Author.ID != Bot.ID:
		return nil, NotOwn
	case c.archived:
		return nil, ThreadArchived
	}
	if err := s.revise(m, d); err != nil {
		return nil, err
	}
	s.dispatchMessage("MESSAGE_UPDATE", m)
	return s.wire(m, s.readable()), nil
}

// revise applies an edit: what was not sent stays. An edit without
// allowed_mentions parses all mentions again.
// https://discord.com/developers/docs/resources/message#edit-message
func (s *Server) revise(m *Message, d *draft) error {
	text, files, embeds := m.Content, m.Files, m.Embeds
	if d.Content != nil {
		text = strings.TrimSpace(*d.Content)
	}
	if kept, given := d.keptFiles(); given {
		files = slices.DeleteFunc(slices.Clone(files), func(f File) bool { return !slices.Contains(kept, f.id) })
	}
	files = append(slices.Clip(files), d.files...)
	if len(d.Embeds) > 0 {
		embeds = present(d.Embeds)
	}
	if text == "" && len(files) == 0 && embeds == nil {
		return EmptyMessage
	}
	d.Content = &text
	v := d.version(m.ReplyTo != "")
	v.At = s.now()
	m.setVersion(v)
	m.Files, m.Embeds = files, embeds
	m.Flags &^= loadingFlag
	if d.Flags != nil {
		m.Flags = m.Flags&^suppressEmbedsFlag | *d.Flags&suppressEmbedsFlag
	}
	if len(d.Components) > 0 {
		m.Components = present(d.Components)
	}
	s.publish(m)
	s.broadcast()
	return nil
}

// deleteMessage takes the bot's own messages only: those of others need the
// permission to manage messages, which the bot never has here.
func (s *Server) deleteMessage(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, m, err := s.messageOf(r)
	switch {
	case err != nil:
		return nil, err
	case m.Author.ID != Bot.ID && c.Guild == "":
		return nil, NotOnDM
	case m.Author.ID != Bot.ID:
		return nil, MissingPermissions
	}
	s.erase(m)
	s.dispatchDeletion(c, []string{m.ID})
	s.broadcast()
	return nil, nil
}

func (s *Server) startTyping(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.place(r.PathValue("channel"))
	if err != nil {
		return nil, err
	}
	if c.Type == ForumChannel || c.Type == CategoryChannel {
		return nil, NonTextChannel
	}
	if !s.may(c, SendMessages) && !c.IsThread() || !s.may(c, SendInThreads) && c.IsThread() {
		return nil, MissingPermissions
	}
	s.typing[c.ID]++
	s.broadcast()
	return nil, nil
}
