package api

import (
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// The groups of operations.
const (
	tagMessages      = "Messages"
	tagSessions      = "Sessions"
	tagConversations = "Conversations"
	tagLooking       = "Search and statistics"
	tagOpenAI        = "OpenAI's clients"
)

var tags = []*huma.Tag{
	{Name: tagMessages, Description: "Talk in a session, and read what was said."},
	{Name: tagSessions, Description: "Places that people or programs talk in. A session lives for ever, and has at most one active conversation."},
	{Name: tagConversations, Description: "Stretches of a session, each with an id that never changes."},
	{Name: tagLooking, Description: "Over all sessions."},
	{Name: tagOpenAI, Description: "What OpenAI's clients ask for, in OpenAI's shapes."},
}

// The paths of most operations.
const (
	pathOfSession      = prefix + "/sessions/{key}"
	pathOfConversation = prefix + "/conversations/{id}"
)

// operations returns the operations of the API, in the order of the
// documentation. Each file describes the operations that it handles.
func (c *Channel) operations() []operation {
	return slices.Concat(
		c.askOperations(),
		c.uploadOperations(),
		c.appendOperations(),
		c.runOperations(),
		c.approvalOperations(),
		c.readOperations(),
		c.followOperations(),
		c.sessionOperations(),
		c.stateOperations(),
		c.instructionOperations(),
		c.reminderOperations(),
		c.conversationOperations(),
		c.traceOperations(),
		c.exportOperations(),
		c.fileOperations(),
		c.searchOperations(),
		c.statsOperations(),
		c.openAIOperations(),
	)
}
