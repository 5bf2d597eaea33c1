package discordtest

import (
	"fmt"
	"net/http"
	"time"
)

// Verdict is what the server does with a request. The zero value lets it pass.
type Verdict struct {
	Status     int             // of HTTP; 0 lets the request pass
	Code       int             // of Discord's JSON
	Message    string          // of Discord's JSON; default by status
	Errors     map[string]any  // the tree of a 50035
	RetryAfter time.Duration   // wait that a 429 asks for
	Global     bool            // the 429 is for every route
	Body       string          // answered instead of JSON, such as a proxy's page
	Drop       bool            // the connection is closed without an answer
	Delay      time.Duration   // before anything else
	Wait       <-chan struct{} // closed or sent to before anything else
}

// Error makes a Verdict an error inside the server.
func (v Verdict) Error() string { return fmt.Sprint(v.Status, " ", v.Code, " ", v.Message) }

// foreign is the refusal as a server words it that others wrote.
func (v Verdict) foreign() Verdict {
	switch {
	case v.Status == http.StatusNotFound:
		v.Code = 0
	case v.Code == MissingPermissions.Code:
		v.Status = http.StatusBadRequest
	}
	return v
}

func (v Verdict) passes() bool { return v.Status == 0 && !v.Drop }

// TooMany is the answer to a client that must wait on this route.
func TooMany(retryAfter time.Duration) Verdict {
	return Verdict{Status: 429, Message: "You are being rate limited.", RetryAfter: retryAfter}
}

// TooManyGlobally is the answer to a client that must wait on every route.
func TooManyGlobally(retryAfter time.Duration) Verdict {
	v := TooMany(retryAfter)
	v.Global = true
	return v
}

// BadGateway is what a proxy answers while the server behind it is away.
func BadGateway() Verdict {
	return Verdict{Status: 502, Body: "<html><body><h1>502 Bad Gateway</h1><hr>cloudflare</body></html>"}
}

// ServerError is Discord's own failure.
func ServerError() Verdict { return Verdict{Status: 500, Message: "500: Internal Server Error"} }

// Drop closes the connection without an answer.
func Drop() Verdict { return Verdict{Drop: true} }

// Held lets the request pass when the channel is closed.
func Held(until <-chan struct{}) Verdict { return Verdict{Wait: until} }

// What Discord refuses, with its words:
// https://discord.com/developers/docs/topics/opcodes-and-status-codes#json
var (
	NotFound             = Verdict{Status: 404, Message: "404: Not Found"}
	Unauthorized         = Verdict{Status: 401, Message: "401: Unauthorized"}
	UnknownApplication   = Verdict{Status: 404, Code: 10002, Message: "Unknown Application"}
	UnknownChannel       = Verdict{Status: 404, Code: 10003, Message: "Unknown Channel"}
	UnknownGuild         = Verdict{Status: 404, Code: 10004, Message: "Unknown Guild"}
	UnknownMessage       = Verdict{Status: 404, Code: 10008, Message: "Unknown Message"}
	UnknownUser          = Verdict{Status: 404, Code: 10013, Message: "Unknown User"}
	UnknownWebhook       = Verdict{Status: 404, Code: 10015, Message: "Unknown Webhook"}
	UnknownInteraction   = Verdict{Status: 404, Code: 10062, Message: "Unknown interaction"}
	TooLarge             = Verdict{Status: 413, Code: 40005, Message: "Request entity too large"}
	AlreadyAcknowledged  = Verdict{Status: 400, Code: 40060, Message: "Interaction has already been acknowledged."}
	MissingAccess        = Verdict{Status: 403, Code: 50001, Message: "Missing Access"}
	NotOnDM              = Verdict{Status: 400, Code: 50003, Message: "Cannot execute action on a DM channel"}
	NotOwn               = Verdict{Status: 403, Code: 50005, Message: "Cannot edit a message authored by another user"}
	EmptyMessage         = Verdict{Status: 400, Code: 50006, Message: "Cannot send an empty message"}
	CannotDM             = Verdict{Status: 403, Code: 50007, Message: "Cannot send messages to this user"}
	NonTextChannel       = Verdict{Status: 400, Code: 50008, Message: "Cannot send messages in a non-text channel"}
	MissingPermissions   = Verdict{Status: 403, Code: 50013, Message: "Missing Permissions"}
	NotOnThisChannelType = Verdict{Status: 400, Code: 50024, Message: "Cannot execute action on this channel type"}
	InvalidWebhookToken  = Verdict{Status: 401, Code: 50027, Message: "Invalid Webhook Token"}
	ThreadArchived       = Verdict{Status: 400, Code: 50083, Message: "Thread is archived"}
	InvalidJSON          = Verdict{Status: 400, Code: 50109, Message: "The request body contains invalid JSON."}
	CannotReply          = Verdict{Status: 403, Code: 160002, Message: "Cannot reply without permission to read message history"}
	ThreadExists         = Verdict{Status: 400, Code: 160004, Message: "A thread has already been created for this message"}
)

// invalid is a 50035 about one field, named with dots such as "content" or
// "files.0.name". https://discord.com/developers/docs/reference#error-messages
func invalid(field, code, format string, args ...any) Verdict {
	leaf := map[string]any{"_errors": []map[string]any{{"code": code, "message": fmt.Sprintf(format, args...)}}}
	return Verdict{Status: 400, Code: 50035, Message: "Invalid Form Body", Errors: nest(field, leaf)}
}

func nest(field string, leaf map[string]any) map[string]any {
	for i := len(field) - 1; i >= 0; i-- {
		if field[i] == '.' {
			return nest(field[:i], map[string]any{field[i+1:]: leaf})
		}
	}
	return map[string]any{field: leaf}
}
