package llm

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Kind says why a model call failed. The API, logs, metrics and pages show it as it is.
type Kind string

const (
	KindBusy        Kind = "busy"        // the server takes no more calls for now (429)
	KindUnavailable Kind = "unavailable" // the server is in trouble (5xx)
	KindUnreachable Kind = "unreachable" // there is no connection to the server
	KindTimeout     Kind = "timeout"     // the answer took longer than the timeout
	KindCutOff      Kind = "cut_off"     // the answer broke off in the middle
	KindNoAnswer    Kind = "no_answer"   // the answer held no word and no tool call
	KindOnlyTools   Kind = "only_tools"  // the model asked for tools again and again, and never answered

	KindNotAPI       Kind = "not_an_api"    // a web page, or nothing, is at the address
	KindUnauthorized Kind = "unauthorized"  // the server does not accept the API key
	KindNoCredit     Kind = "no_credit"     // the account has to be paid first
	KindUnknownModel Kind = "unknown_model" // the server does not have the model

	KindTooLong  Kind = "too_long" // the list is longer than the model takes: shrink and call again
	KindWithheld Kind = "withheld" // the provider's content filter withheld the answer
	KindRefused  Kind = "refused"  // the server refuses this request (400, 422)

	KindOverBudget Kind = "over_budget" // a cap of the operator is reached: no call was made
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{
		KindBusy, KindUnavailable, KindUnreachable, KindTimeout, KindCutOff, KindNoAnswer, KindOnlyTools,
		KindNotAPI, KindUnauthorized, KindNoCredit, KindUnknownModel, KindTooLong, KindWithheld, KindRefused, KindOverBudget,
	}
}

// Passes reports whether the same call may succeed later, although nobody changes
// anything. Such a call was retried.
func (k Kind) Passes() bool {
	return slices.Contains([]Kind{KindBusy, KindUnavailable, KindUnreachable, KindTimeout, KindCutOff, KindNoAnswer}, k)
}

// IsSetup reports whether calls fail until the operator changes the configuration, the
// account or the server.
func (k Kind) IsSetup() bool {
	return slices.Contains([]Kind{KindNotAPI, KindUnauthorized, KindNoCredit, KindUnknownModel}, k)
}

// IsServers reports whether a call has failed by a fault of the server, the account or the configuration, so that the same
// call works once that is mended.
func (k Kind) IsServers() bool { return k.Passes() && k != KindNoAnswer || k.IsSetup() }

// Error is why a model call failed, after the retries that its kind allows.
type Error struct {
	Kind       Kind
	Status     int           // HTTP status, 0 when there was none
	RetryAfter time.Duration // the wait that the server has asked for, 0 for none
	Limit      int           // KindTooLong: tokens that the model takes, as the server says; 0 when it does not say

	User     string // for the person in the chat: what happened, and what that person can do
	Operator string // for the operator: server, cause and next step, without secrets; "" = Err says it all
	Err      error  // the details for the log, without secrets
}

func (e *Error) Error() string {
	told := e.Operator
	if told == "" {
		told = "model call failed"
	}
	if e.Status != 0 {
		told += fmt.Sprintf(" (status %d)", e.Status)
	}
	if e.Err == nil {
		return told
	}
	return fmt.Sprintf("%s: %v", told, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// MayBeOfCall reports whether a server that works may fail so, too, because of what the call asks for: the answer takes too
// long or breaks off, or the server does not permit this request.
func (e *Error) MayBeOfCall() bool {
	return e.Kind == KindTimeout || e.Kind == KindCutOff || e.Status == http.StatusForbidden
}

// Brief returns the error as the operator reads it in a chat: with the server's words
// only where these alone say what is wrong.
func (e *Error) Brief() error {
	if e.Operator == "" || e.Kind == KindRefused || e.Kind == KindUnavailable {
		return e
	}
	return errors.New(e.Operator)
}

// KindOf returns the kind of a failed model call, "" for any other error.
func KindOf(err error) Kind {
	var failed *Error
	if errors.As(err, &failed) {
		return failed.Kind
	}
	return ""
}
