package api

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"parley/channels/hosted"
)

// openAIOperations are the endpoints that OpenAI's clients know. They read and write
// OpenAI's shapes, with its errors.
func (c *Channel) openAIOperations() []operation {
	return []operation{
		c.ofOpenAI(huma.Operation{
			OperationID: "create-chat-completion", Method: http.MethodPost, Path: "/v1/chat/completions", MaxBodyBytes: hosted.MaxBody,
			Summary: "Create a chat completion",
			Description: "With a session, which user or the header X-Session-Key names, only the newest message of the user counts. " +
				"Without one, the model sees the messages of the request alone, and nothing is stored.",
		}, c.complete, eventType),
		c.ofOpenAI(huma.Operation{
			OperationID: "create-response", Method: http.MethodPost, Path: "/v1/responses", MaxBodyBytes: hosted.MaxBody,
			Summary: "Create a response",
			Description: "With a session, which conversation, user, previous_response_id or the header X-Session-Key names, only what the user says at the end of the input counts. " +
				"Without one, the model sees the input of the request alone, and nothing is stored.",
		}, c.respondToItems, eventType),
		c.ofOpenAI(huma.Operation{
			OperationID: "get-response", Method: http.MethodGet, Path: "/v1/responses/{response}", Parameters: inPath("response"),
			Summary: "Read a stored response",
			Description: "Responses of a session are stored for about a week. While one is answered, its status is in_progress. " +
				"Any other id is answered with 404.",
		}, c.getResponse),
		c.ofOpenAI(huma.Operation{
			OperationID: "delete-response", Method: http.MethodDelete, Path: "/v1/responses/{response}", Parameters: inPath("response"),
			Summary:     "Delete a stored response",
			Description: "The messages of its conversation remain. A response that is still in progress is not deleted, but refused with 409.",
		}, c.deleteResponse),
		c.ofOpenAI(huma.Operation{
			OperationID: "list-models", Method: http.MethodGet, Path: "/v1/models",
			Summary: "List the models that answer, and those that requests may name",
		}, c.listModels),
		c.ofOpenAI(huma.Operation{
			OperationID: "get-model", Method: http.MethodGet, Path: "/v1/models/{model}", Parameters: inPath("model"),
			Summary: "Read one of the models",
		}, c.getModel).at("/v1/models/{model...}"), // names have slashes, too
	}
}

// ofOpenAI returns the operation of a handler that writes OpenAI's shapes, JSON or further
// types.
func (c *Channel) ofOpenAI(o huma.Operation, serve http.HandlerFunc, types ...string) operation {
	o.Tags = []string{tagOpenAI}
	return operation{Operation: o, serve: serve, register: describe}.
		tells(http.StatusOK, "The answer, in OpenAI's shape", map[string]any{}, append([]string{jsonType}, types...)...).
		tells(http.StatusBadRequest, "An error in OpenAI's shape, which names the parameter at fault; other errors have the same shape", apiError{}, jsonType)
}

// inPath returns the parameter of a path.
func inPath(name string) []*huma.Param {
	return []*huma.Param{{Name: name, In: "path", Required: true, Description: "Its id", Schema: &huma.Schema{Type: huma.TypeString}}}
}

// describe adds an operation to the document only: its handler reads requests by itself.
func describe(api huma.API, o huma.Operation) {
	if o.Method == http.MethodPost {
		o.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			jsonType: {Schema: &huma.Schema{Type: huma.TypeObject, Description: "As OpenAI's clients send it"}},
		}}
	}
	api.OpenAPI().AddOperation(&o)
}
