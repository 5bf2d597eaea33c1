package telegram

// maxStrangers is how many are remembered; then the log repeats itself.
const maxStrangers = 10_000

// strangers are those who were logged, so that each is only once.
type strangers map[string]struct{}

// isNew reports whether id is seen for the first time.
func (s *strangers) isNew(id string) bool {
	if _, known := (*s)[id]; known {
		return false
	}
	if *s == nil || len(*s) >= maxStrangers {
		*s = strangers{}
	}
	(*s)[id] = struct{}{}
	return true
}

// admits checks access by the sender and, in groups, by the group. Strangers
// get no answer, and a line in the log that says what allow would have to hold.
func (c *Channel) admits(m *message, from *account) bool {
	names := []string{from.id(), from.handle()}
	if m.isGroup() {
		names = append(names, m.Chat.id(), m.Chat.handle())
	}
	if c.access.Allows(names...) {
		return true
	}
	if c.strangers.isNew(from.id()) {
		c.log.Info("a stranger gets no answer; the id in allow lets them in",
			"id", from.id(), "username", from.handle(), "name", from.name(), "chat", m.Chat.id())
	}
	return false
}
