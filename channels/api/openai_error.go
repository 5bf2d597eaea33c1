package api

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"parley/conversation/dbhealth"
	"parley/llm"
)

// apiError is an error as OpenAI's clients read it:
// https://platform.openai.com/docs/guides/error-codes
type apiError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

// openAIError is a refusal that names the parameter at fault, or has a code that
// clients look for.
type openAIError struct {
	status      int
	message     string
	param, code string // "" = none
	kind        string // the "type" of the error; "" = that of the status
}

// overBudget refuses what a cap of [budget] forbids.
func overBudget(message string) *openAIError {
	const quota = "insufficient_quota"
	return &openAIError{status: http.StatusTooManyRequests, message: message, code: quota, kind: quota}
}

func (e *openAIError) Error() string { return e.message }

// wrongParameter refuses a request for one of its parameters.
func wrongParameter(param, code, message string) error {
	return &openAIError{status: http.StatusBadRequest, message: message, param: param, code: code}
}

// body returns the error in OpenAI's shape.
func (e *openAIError) body() (body apiError) {
	body.Error.Message, body.Error.Type = e.message, cmp.Or(e.kind, errorType(e.status))
	body.Error.Param, body.Error.Code = orNull(e.param), orNull(cmp.Or(e.code, errorCodes[e.status]))
	return body
}

// errorType returns OpenAI's type of errors with a status.
func errorType(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "requests"
	case status >= http.StatusInternalServerError:
		return "server_error"
	}
	return "invalid_request_error"
}

// errorCodes are OpenAI's codes where one goes with a status.
var errorCodes = map[int]string{
	http.StatusUnauthorized:    "invalid_api_key",
	http.StatusTooManyRequests: "rate_limit_exceeded",
}

// writeOpenAIProblem writes errors of the server itself, such as a wrong token, in
// OpenAI's shape.
func writeOpenAIProblem(w http.ResponseWriter, status int, detail string) {
	e := openAIError{status: status, message: detail}
	writeJSON(w, status, e.body())
}

// refuseStored is refuse for a request whose message is stored. It tells clients not to
// retry by themselves, since it would be said twice.
func refuseStored(w http.ResponseWriter, err error) {
	w.Header().Set("X-Should-Retry", "false")
	refuse(w, err)
}

// refuse answers with a problem in the shape of OpenAI's errors. Clients may retry by
// themselves if nothing was stored and the problem passes by itself, so that it says when.
func refuse(w http.ResponseWriter, err error) {
	var headers huma.HeadersError
	if errors.As(err, &headers) {
		for name, values := range headers.GetHeaders() {
			w.Header()[name] = values
		}
	}
	e := asOpenAIError(err)
	if passes := w.Header().Get("Retry-After") != ""; e.status >= http.StatusInternalServerError && !passes || e.kind != "" {
		w.Header().Set("X-Should-Retry", "false")
	}
	writeJSON(w, e.status, e.body())
}

// asOpenAIError returns a problem as one of OpenAI's errors.
func asOpenAIError(err error) *openAIError {
	var told *openAIError
	if errors.As(err, &told) {
		return told
	}
	var p *huma.ErrorModel
	if !errors.As(err, &p) {
		panic(err) // problemOf returns nothing else
	}
	return &openAIError{status: p.Status, message: p.Detail}
}

// modelFailure returns the error of a call that belongs to no session, and sets the
// header Retry-After where the model's server gave one. Nothing was stored, so the
// client may repeat the call where that can help.
func (c *Channel) modelFailure(ctx context.Context, header http.Header, err error) *openAIError {
	var failed *llm.Error
	switch {
	case errors.As(err, &failed):
	case ctx.Err() != nil:
		return asOpenAIError(c.problemOf(ctx, ctx.Err()))
	default:
		return asOpenAIError(c.problemOf(ctx, err))
	}
	e := &openAIError{status: http.StatusBadGateway, message: failed.User}
	switch {
	case failed.Kind == llm.KindOverBudget:
		e = overBudget(failed.User)
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(failed.RetryAfter.Seconds()))))
	case failed.Kind == llm.KindTooLong:
		e.status, e.param, e.code = http.StatusBadRequest, "messages", "context_length_exceeded"
	case failed.Kind == llm.KindRefused && failed.Status >= 400 && failed.Status < 500: // the request is at fault
		e.status = http.StatusBadRequest
		e.message += " " + dbhealth.Sentence(failed.Err)
	case failed.Kind.Passes():
		if e.status = http.StatusServiceUnavailable; failed.Kind == llm.KindBusy {
			e.status = http.StatusTooManyRequests
		}
		if failed.RetryAfter > 0 {
			header.Set("Retry-After", strconv.Itoa(int(math.Ceil(failed.RetryAfter.Seconds()))))
		}
	}
	c.Log.Warn("stateless completion failed", "error", err)
	return e
}
