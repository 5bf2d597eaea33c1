package llm

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// notSetUp is what people are told where only the operator can help.
const notSetUp = "The assistant can't answer because something in its setup is wrong. Please tell whoever runs it."

// word fills in the texts of a failure for the person in the chat and for the operator.
func (t *target) word(e *Error, model string) {
	e.User = userWords(e)
	e.Operator = t.operatorWords(e, model)
}

// userWords returns what a person in a chat is told: what happened, and what that
// person can do.
func userWords(e *Error) string {
	switch e.Kind {
	case KindBusy:
		return "The model is busy. " + comeBack(e.RetryAfter)
	case KindUnavailable:
		return "The model's server is in trouble. " + comeBack(e.RetryAfter)
	case KindUnreachable:
		return "The model can't be reached. Please try again later."
	case KindTimeout:
		return "The model did not answer in time. Please try again later."
	case KindCutOff:
		return "The model's answer broke off in the middle. Please try again."
	case KindNoAnswer:
		switch {
		case errors.Is(e.Err, errUsedUp):
			return "The model reached its length limit before it wrote a word, so there is no answer. Please ask for less at once, or in simpler words."
		case errors.Is(e.Err, errTooLong):
			return "The model's server sent far more than an answer, and no word of one. Please try again later."
		}
		return "The model gave an empty answer. Please try again, perhaps in other words."
	case KindTooLong:
		return "This conversation is longer than the model can take."
	case KindWithheld:
		return "The model's provider withheld the answer (content filter). Please ask in other words."
	case KindRefused:
		return "The model's server refused this request. Please ask in other words; if that does not help, tell whoever runs the assistant."
	}
	return notSetUp
}

// operatorWords returns what the operator is told: the server, the cause, and the key of
// the configuration that may be wrong. It repeats no secret.
func (t *target) operatorWords(e *Error, model string) string {
	host := t.host()
	switch e.Kind {
	case KindBusy:
		if e.RetryAfter > 0 {
			return fmt.Sprintf("the model's server at %s is busy and asks to wait %s", host, e.RetryAfter.Round(time.Second))
		}
		return fmt.Sprintf("the model's server at %s is busy", host)
	case KindUnavailable:
		return fmt.Sprintf("the model's server at %s is in trouble", host)
	case KindUnreachable:
		return fmt.Sprintf("the model's server at %s can't be reached; check that it runs, and base_url in %s", host, t.cfg.Section)
	case KindTimeout:
		return fmt.Sprintf("the model %q at %s did not answer within %s; timeout in %s allows more", model, host, t.cfg.Timeout, t.cfg.Section)
	case KindCutOff:
		return fmt.Sprintf("the answer of the model %q at %s broke off", model, host)
	case KindNoAnswer:
		return fmt.Sprintf("the model %q at %s gave no answer", model, host)
	case KindNotAPI:
		return t.notAPIWords(e, host)
	case KindUnauthorized:
		return t.unauthorizedWords(e, host)
	case KindNoCredit:
		return fmt.Sprintf("the account at %s has no credit left", host)
	case KindUnknownModel:
		return fmt.Sprintf("the model's server at %s does not have the model %q; set model in %s to one of those that it has", host, printable(model), t.cfg.Section)
	case KindTooLong:
		return fmt.Sprintf("the list is longer than the model %q at %s takes", model, host)
	case KindWithheld:
		return fmt.Sprintf("the content filter of %s withheld the answer", host)
	}
	return fmt.Sprintf("the model's server at %s refused the request", host)
}

// notAPIWords tells the operator that base_url is no address of an API.
func (t *target) notAPIWords(e *Error, host string) string {
	var refused *statusError
	var redirected *redirectError
	switch {
	case errors.As(e.Err, &redirected):
		return fmt.Sprintf("the model's server at %s has another address than base_url in %s", host, t.cfg.Section)
	case errors.Is(e.Err, errHTML), errors.As(e.Err, &refused) && refused.isPage():
		return fmt.Sprintf("this looks like a web page: %s; check base_url in %s, it usually ends in /v1", t.address(), t.cfg.Section)
	}
	return fmt.Sprintf("nothing answers at %s; check base_url in %s, it usually ends in /v1", t.address(), t.cfg.Section)
}

// unauthorizedWords names the key of the configuration that holds the API key.
func (t *target) unauthorizedWords(e *Error, host string) string {
	switch {
	case e.Status == http.StatusForbidden:
		return fmt.Sprintf("%s does not permit this call to the API key's account; check %s", host, t.cfg.KeyName)
	case t.cfg.APIKey == "":
		return fmt.Sprintf("%s wants an API key, and none is set; set %s", host, t.cfg.KeyName)
	}
	return fmt.Sprintf("%s does not accept the API key; check %s", host, t.cfg.KeyName)
}

// host returns the host and port of the server, for people.
func (t *target) host() string {
	if host := hostOf(t.cfg.BaseURL); host != "" {
		return host
	}
	return "its address"
}

// address returns the server's address without password and query.
func (t *target) address() string {
	u, err := url.Parse(t.cfg.BaseURL)
	if err != nil {
		return t.host()
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// comeBack returns when a person should try again.
func comeBack(after time.Duration) string {
	if after < 2*time.Second {
		return "Please try again in a moment."
	}
	return "Please try again in " + InWords(after) + "."
}

// InWords returns a wait in words: "20 seconds".
func InWords(d time.Duration) string {
	switch {
	case d < 1500*time.Millisecond:
		return "a second"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Round(time.Second).Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Round(time.Minute).Minutes()))
	}
	return fmt.Sprintf("%d hours", int(d.Round(time.Hour).Hours()))
}
