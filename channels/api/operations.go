package api

import (
	"net/http"
	"time"

	"parley/channels/hosted"

	"github.com/danielgtaylor/huma/v2"
)

// The groups of operations.
const (
	tagMessages      = "Messages"
	tagSessions      = "Sessions"
	tagConversations = "Conversations"
	tagLooking       = "Search and statistics"
)

var tags = []*huma.Tag{
	{Name: tagMessages, Description: "Talk in a session, and read what was said."},
	{Name: tagSessions, Description: "Places that people or programs talk in. A session lives for ever, and has at most one active conversation."},
	{Name: tagConversations, Description: "Stretches of a session, each with an id that never changes."},
	{Name: tagLooking, Description: "Over all sessions."},
}

// operations returns the operations of the API, in the order of the
// documentation.
func (c *Channel) operations() []operation {
	const session, one = prefix + "/sessions/{key}", prefix + "/conversations/{id}"
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "post-message", Method: http.MethodPost, Path: session + "/messages", Tags: []string{tagMessages},
			Summary: "Say something, or append messages", MaxBodyBytes: hosted.MaxBody, BodyReadTimeout: 5 * time.Minute,
			Description: "Runs the agent and answers with its reply, as JSON or as server-sent events. A client that goes away stops nothing. " +
				"A request that is repeated with its Idempotency-Key gets the first result, or joins the run that makes it. With run=false the messages are only appended.",
			Errors: []int{http.StatusBadRequest, http.StatusForbidden, http.StatusConflict, http.StatusServiceUnavailable},
		}, c.postMessage).
			tells(http.StatusOK, "The answer. With run=false: what the same request appended before", answer{}, jsonType, eventType).
			tells(http.StatusCreated, "With run=false: what was appended", appendedList{}, jsonType).
			tells(http.StatusAccepted, "The client did not want to wait longer; Location says where to ask", answer{}, jsonType),
		endpoint(c, huma.Operation{
			OperationID: "append-messages", Method: http.MethodPost, Path: session + "/messages:append", Tags: []string{tagMessages},
			Summary: "Append messages", MaxBodyBytes: hosted.MaxBody, BodyReadTimeout: 5 * time.Minute,
			Description: "Adds one message, or a list of them, to the active conversation. Nobody answers.",
			Errors:      []int{http.StatusBadRequest, http.StatusForbidden, http.StatusServiceUnavailable},
		}, c.appendMessages).
			tells(http.StatusCreated, "What was appended", appendedList{}, jsonType).
			tells(http.StatusOK, "What the same request appended before", appendedList{}, jsonType),
		endpoint(c, huma.Operation{
			OperationID: "get-answer", Method: http.MethodGet, Path: session + "/answers/{id}", Tags: []string{tagMessages},
			Summary:     "Ask for the answer to a message",
			Description: "By the id of the message, which is its Idempotency-Key. Answers are kept for a week, and go with their conversation.",
			Errors:      []int{http.StatusNotFound, http.StatusGone, http.StatusServiceUnavailable},
		}, c.getAnswer).
			tells(http.StatusOK, "The answer", answer{}, jsonType, eventType).
			tells(http.StatusAccepted, "There is none yet", answer{}, jsonType),
		endpoint(c, huma.Operation{
			OperationID: "get-messages", Method: http.MethodGet, Path: session + "/messages", Tags: []string{tagMessages},
			Summary: "Read the active conversation", Parameters: []*huma.Param{metadataParam("the message")}, Errors: []int{http.StatusNotFound},
		}, c.getSessionMessages),
		endpoint(c, huma.Operation{
			OperationID: "follow-session", Method: http.MethodGet, Path: session + "/events", Tags: []string{tagMessages},
			Summary: "Follow a session",
			Description: "A stream of server-sent events: message and notice for what is stored, with ids, and delta, reset, tool_call and tool_result of the run under way. " +
				"It goes on where Last-Event-ID says, also after a restart; without it, it begins with what is new.",
		}, c.followSession).tells(http.StatusOK, "The stream", "", eventType),

		endpoint(c, huma.Operation{
			OperationID: "list-sessions", Method: http.MethodGet, Path: prefix + "/sessions", Tags: []string{tagSessions},
			Summary: "List sessions", Parameters: []*huma.Param{metadataParam("the session")},
		}, c.listSessions),
		endpoint(c, huma.Operation{
			OperationID: "get-session", Method: http.MethodGet, Path: session, Tags: []string{tagSessions},
			Summary: "Get a session", Errors: []int{http.StatusNotFound},
		}, c.getSession),
		endpoint(c, huma.Operation{
			OperationID: "patch-session", Method: http.MethodPatch, Path: session, Tags: []string{tagSessions},
			Summary: "Change the metadata of a session", Description: "A session whose key begins with api: is made when it is new.", Errors: []int{http.StatusNotFound},
		}, c.patchSession),
		endpoint(c, huma.Operation{
			OperationID: "get-state", Method: http.MethodGet, Path: session + "/state", Tags: []string{tagSessions},
			Summary: "Get the session state", Description: "What the model is always told of the active conversation.", Errors: []int{http.StatusNotFound},
		}, c.getState),
		endpoint(c, huma.Operation{
			OperationID: "patch-state", Method: http.MethodPatch, Path: session + "/state", Tags: []string{tagSessions},
			Summary: "Add and strike rules and decisions", Description: "What is struck goes first. All of it is done, or nothing.",
			Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.patchState),
		endpoint(c, huma.Operation{
			OperationID: "get-instructions", Method: http.MethodGet, Path: session + "/instructions", Tags: []string{tagSessions},
			Summary: "Get the instructions of a session", Description: "What the model is told in every run of the session, beside the gateway's own instructions.", Errors: []int{http.StatusNotFound},
		}, c.getInstructions),
		endpoint(c, huma.Operation{
			OperationID: "put-instructions", Method: http.MethodPut, Path: session + "/instructions", Tags: []string{tagSessions},
			Summary:     "Replace the instructions of a session",
			Description: "They hold from the next run on, and stay when a conversation expires or is archived. A session whose key begins with api: is made when it is new.",
			Errors:      []int{http.StatusNotFound},
		}, c.putInstructions),
		endpoint(c, huma.Operation{
			OperationID: "archive-session", Method: http.MethodPost, Path: session + "/archive", Tags: []string{tagSessions},
			Summary: "Archive the active conversation", Description: "The next message begins a new one.", Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.archiveSession),
		endpoint(c, huma.Operation{
			OperationID: "reset-session", Method: http.MethodPost, Path: session + "/reset", Tags: []string{tagSessions},
			Summary: "Begin a new conversation", Description: "The active one is archived; the session keeps its metadata.", Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.resetSession),
		endpoint(c, huma.Operation{
			OperationID: "delete-session", Method: http.MethodDelete, Path: session, Tags: []string{tagSessions},
			Summary: "Delete all conversations of a session", Description: "For good, with the session's metadata.", Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.deleteSession),
		endpoint(c, huma.Operation{
			OperationID: "export-session", Method: http.MethodGet, Path: session + "/export", Tags: []string{tagSessions},
			Summary: "Export all conversations of a session", Errors: []int{http.StatusNotFound},
		}, c.exportSession).tells(http.StatusOK, "The file, streamed", "", exportTypes()...),
		endpoint(c, huma.Operation{
			OperationID: "list-session-conversations", Method: http.MethodGet, Path: session + "/conversations", Tags: []string{tagSessions},
			Summary: "List the conversations of a session", Parameters: []*huma.Param{metadataParam("the session")}, Errors: []int{http.StatusNotFound},
		}, c.listSessionChats),

		endpoint(c, huma.Operation{
			OperationID: "list-conversations", Method: http.MethodGet, Path: prefix + "/conversations", Tags: []string{tagConversations},
			Summary: "List conversations", Parameters: []*huma.Param{metadataParam("the session")},
		}, c.listChats),
		endpoint(c, huma.Operation{
			OperationID: "get-conversation", Method: http.MethodGet, Path: one, Tags: []string{tagConversations},
			Summary: "Get a conversation with its messages", Parameters: []*huma.Param{metadataParam("the message")}, Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.getChat),
		endpoint(c, huma.Operation{
			OperationID: "get-trace", Method: http.MethodGet, Path: one + "/trace", Tags: []string{tagConversations},
			Summary: "Get the trace of a conversation", Description: "Its runs with each model call and tool call, and sums over all of it. The messages are those of view=all.", Errors: []int{http.StatusNotFound},
		}, c.getTrace),
		endpoint(c, huma.Operation{
			OperationID: "rename-conversation", Method: http.MethodPatch, Path: one, Tags: []string{tagConversations},
			Summary: "Rename a conversation", Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.renameChat),
		endpoint(c, huma.Operation{
			OperationID: "archive-conversation", Method: http.MethodPost, Path: one + "/archive", Tags: []string{tagConversations},
			Summary: "Archive a conversation", Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.archiveChat),
		endpoint(c, huma.Operation{
			OperationID: "delete-conversation", Method: http.MethodDelete, Path: one, Tags: []string{tagConversations},
			Summary: "Delete a conversation", Description: "For good.", Errors: []int{http.StatusNotFound, http.StatusConflict},
		}, c.deleteChat),
		endpoint(c, huma.Operation{
			OperationID: "export-conversation", Method: http.MethodGet, Path: one + "/export", Tags: []string{tagConversations},
			Summary: "Export a conversation", Errors: []int{http.StatusNotFound},
		}, c.exportChat).tells(http.StatusOK, "The file, streamed", "", exportTypes()...),

		endpoint(c, huma.Operation{
			OperationID: "get-file", Method: http.MethodGet, Path: one + "/messages/{seq}/files/{n}", Tags: []string{tagConversations},
			Summary: "Get a file of a message", Errors: []int{http.StatusNotFound},
		}, c.getFile).tells(http.StatusOK, "The bytes of the file", "", "application/octet-stream"),
		endpoint(c, huma.Operation{
			OperationID: "get-image", Method: http.MethodGet, Path: one + "/messages/{seq}/images/{n}", Tags: []string{tagConversations},
			Summary: "Get a picture of a message", Errors: []int{http.StatusNotFound},
		}, c.getImage).tells(http.StatusOK, "The bytes of the picture", "", "image/png", "image/jpeg", "image/webp", "image/gif"),

		endpoint(c, huma.Operation{
			OperationID: "search", Method: http.MethodGet, Path: prefix + "/search", Tags: []string{tagLooking},
			Summary: "Search messages", Description: "In all sessions, or in one.", Errors: []int{http.StatusNotFound},
		}, c.searchMessages),
		endpoint(c, huma.Operation{
			OperationID: "get-stats", Method: http.MethodGet, Path: prefix + "/stats", Tags: []string{tagLooking},
			Summary: "Get statistics over time",
		}, c.getStats),
	}
}
