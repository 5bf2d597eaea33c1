package conversation

// CloseConversation makes the store refuse additions to a conversation, as after damage.
func (s *Store) CloseConversation(id string) { s.closed.add(id) }
