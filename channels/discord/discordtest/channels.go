package discordtest

import (
	"slices"
	"unicode/utf8"
)

func (s *Server) getChannel(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.place(r.PathValue("channel"))
	if err != nil {
		return nil, err
	}
	return s.wireChannel(c), nil
}

// patchChannel renames, archives and locks threads. The bot changes those
// that it owns, or any with the permission to manage threads.
// https://discord.com/developers/docs/resources/channel#modify-channel
func (s *Server) patchChannel(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.place(r.PathValue("channel"))
	if err != nil {
		return nil, err
	}
	var change struct {
		Name     *string `json:"name"`
		Archived *bool   `json:"archived"`
		Locked   *bool   `json:"locked"`
		Duration *int    `json:"auto_archive_duration"`
	}
	if err := r.decode(&change); err != nil {
		return nil, err
	}
	switch {
	case c.Guild == "":
		return nil, NotOnDM
	case !c.IsThread(): // needs Manage Channels, which the bot never has here
		return nil, MissingPermissions
	case c.owner != Bot.ID && !s.may(c, ManageThreads):
		return nil, MissingPermissions
	case c.archived && (change.Archived == nil || *change.Archived):
		return nil, ThreadArchived
	}
	if err := checkDuration(change.Duration); err != nil {
		return nil, err
	}
	if change.Name != nil {
		if err := checkName(*change.Name); err != nil {
			return nil, err
		}
	}
	if change.Archived != nil {
		c.archived = *change.Archived
	}
	if change.Locked != nil {
		c.locked = *change.Locked
	}
	renamed := change.Name != nil && *change.Name != c.Name
	if renamed {
		c.Name = *change.Name
	}
	s.dispatchChannel("THREAD_UPDATE", c)
	if renamed {
		m := &Message{Author: Bot, Type: channelNameChange}
		m.setVersion(Version{Content: c.Name, At: s.now()})
		s.post(c, m)
	}
	return s.wireChannel(c), nil
}

func checkName(name string) error {
	if n := utf8.RuneCountInString(name); n < 1 || n > 100 {
		return invalid("name", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
	}
	return nil
}

func checkDuration(minutes *int) error {
	if minutes != nil && !slices.Contains([]int{0, 60, 1440, 4320, 10080}, *minutes) {
		return invalid("auto_archive_duration", "BASE_TYPE_CHOICES", "Value must be one of (60, 1440, 4320, 10080).")
	}
	return nil
}

// newThread is the body of both routes that create a thread.
type newThread struct {
	Name     string `json:"name"`
	Duration *int   `json:"auto_archive_duration"`
	Type     *int   `json:"type"`
	Message  *struct {
		Content string `json:"content"`
	} `json:"message"` // of a forum's post
}

func (r *request) readThread() (newThread, error) {
	var t newThread
	if err := r.decode(&t); err != nil {
		return t, err
	}
	if err := checkName(t.Name); err != nil {
		return t, err
	}
	return t, checkDuration(t.Duration)
}

// threadFromMessage creates a thread that has the id of its message.
// https://discord.com/developers/docs/resources/channel#start-thread-from-message
func (s *Server) threadFromMessage(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, m, err := s.messageOf(r)
	if err != nil {
		return nil, err
	}
	t, err := r.readThread()
	switch {
	case err != nil:
		return nil, err
	case c.Type != TextChannel && c.Type != AnnouncementChannel:
		return nil, NotOnThisChannelType
	case !s.may(c, CreatePublicThreads|ReadMessageHistory):
		return nil, MissingPermissions
	case m.thread != "":
		return nil, ThreadExists
	}
	return created{s.wireChannel(s.startThread(m, t.Name, &Bot))}, nil
}

// createThread creates a thread without a message, or a post of a forum.
// https://discord.com/developers/docs/resources/channel#start-thread-without-message
func (s *Server) createThread(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.place(r.PathValue("channel"))
	if err != nil {
		return nil, err
	}
	t, err := r.readThread()
	if err != nil {
		return nil, err
	}
	if c.Type == ForumChannel {
		return s.createPost(c, t)
	}
	kind := PrivateThread // what Discord makes when no type is given
	if t.Type != nil {
		kind = *t.Type
	}
	needs := CreatePublicThreads
	if kind == PrivateThread {
		needs = CreatePrivateThread
	}
	switch {
	case c.Type != TextChannel && c.Type != AnnouncementChannel:
		return nil, NotOnThisChannelType
	case kind != PublicThread && kind != PrivateThread && kind != AnnouncementThread:
		return nil, invalid("type", "BASE_TYPE_CHOICES", "Value must be one of (10, 11, 12).")
	case !s.may(c, needs):
		return nil, MissingPermissions
	}
	thread := s.addThread(c, s.newID(), t.Name, &Bot, func(c *channel) { c.Type = kind })
	s.dispatchThreadCreate(thread)
	if kind == PublicThread {
		m := &Message{Author: Bot, Type: threadCreated, thread: thread.ID}
		m.setVersion(Version{Content: t.Name, At: s.now()})
		s.post(c, m)
	}
	return created{s.wireChannel(thread)}, nil
}

func (s *Server) createPost(forum *channel, t newThread) (any, error) {
	switch {
	case t.Message == nil:
		return nil, invalid("message", "BASE_TYPE_REQUIRED", "This field is required")
	case !s.may(forum, SendMessages):
		return nil, MissingPermissions
	}
	thread := s.addThread(forum, s.newID(), t.Name, &Bot)
	s.dispatchThreadCreate(thread)
	m := &Message{ID: thread.ID, Author: Bot}
	m.setVersion(Version{Content: t.Message.Content, Pinged: everybody.pings(t.Message.Content, false), At: s.now()})
	s.post(thread, m)
	return created{s.wireChannel(thread)}, nil
}

func (s *Server) joinThread(r *request) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.place(r.PathValue("channel"))
	switch {
	case err != nil:
		return nil, err
	case !c.IsThread():
		return nil, NotOnThisChannelType
	case c.archived:
		return nil, ThreadArchived
	}
	c.members[Bot.ID] = true
	return nil, nil
}
