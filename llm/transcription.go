package llm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"time"

	"parley/plaintext"
)

// TranscriptionConfig is the [transcription] section. The zero value has no model: then
// recordings are not transcribed.
type TranscriptionConfig struct {
	// BaseURL is the address that /audio/transcriptions is appended to, with the version
	// in its path where the server has one. Default https://api.openai.com/v1.
	BaseURL string `toml:"base_url" kind:"url"`

	// APIKey is sent as a bearer token. Default: at OpenAI $OPENAI_API_KEY, elsewhere
	// none.
	APIKey string `toml:"api_key" kind:"secret"`

	// Model is the name of the transcription model. Default "": no transcription.
	Model string `toml:"model"`

	// Language is the language that is spoken, as the server names it, in most cases by
	// its code in ISO 639-1. Default "": the server finds out.
	Language string `toml:"language"`

	// MaxFile is how large a recording may be, in MiB. Default 25, as at OpenAI:
	// https://platform.openai.com/docs/guides/speech-to-text
	MaxFile int64 `toml:"max_file" min:"1" max:"2000"`

	// Timeout is how long the server may take for one recording. Default 2m.
	Timeout time.Duration `toml:"timeout" min:"1s" max:"30m"`

	// Attempted is called after every request, from many goroutines at once. It must not
	// block. Default nil.
	Attempted func(Attempt) `toml:"-"`
}

// WithDefaults returns the configuration with every unset field at its default.
func (c TranscriptionConfig) WithDefaults() TranscriptionConfig {
	setDefault(&c.MaxFile, 25)
	setDefault(&c.Timeout, 2*time.Minute)
	return c
}

// Check reports what can have no effect without a model.
func (c TranscriptionConfig) Check(report func(key, found, allowed string)) {
	const allowed = "model = \"NAME\" in the same section, which turns transcription on"
	switch {
	case c.Model != "":
	case c.BaseURL != "":
		report("base_url", "an address without a model", allowed)
	case c.APIKey != "":
		report("api_key", "a key without a model", allowed)
	case c.Language != "":
		report("language", "a language without a model", allowed)
	}
}

// Transcriber has an OpenAI-compatible server write down what recordings say. It is safe
// for concurrent use.
type Transcriber struct {
	cfg     TranscriptionConfig
	http    *http.Client
	secrets *plaintext.Redactor
}

// NewTranscriber returns a transcriber of cfg.Model. getenv is read for OpenAI's key. It
// makes no connection yet.
func NewTranscriber(cfg TranscriptionConfig, getenv func(string) string) *Transcriber {
	cfg = cfg.WithDefaults()
	sideServer(&cfg.BaseURL, &cfg.APIKey, "/audio/transcriptions", getenv)
	return &Transcriber{cfg: cfg, http: newHTTPClient(), secrets: secretsOf(Config{APIKey: cfg.APIKey, BaseURL: cfg.BaseURL})}
}

// Host returns the host and port of the server.
func (t *Transcriber) Host() string { return hostOf(t.cfg.BaseURL) }

// Model returns the model's name.
func (t *Transcriber) Model() string { return t.cfg.Model }

// Timeout returns how long one call may take.
func (t *Transcriber) Timeout() time.Duration { return t.cfg.Timeout }

// MaxFile returns how many bytes a recording may have.
func (t *Transcriber) MaxFile() int64 { return t.cfg.MaxFile << 20 }

// Recording is what is to be transcribed. The file is read while it is sent.
type Recording struct {
	Name string // with the ending by which servers know the format, "audio.ogg"
	Size int64  // bytes
	Data io.Reader
}

// transcript is what a recording says.
type transcript struct {
	text  string
	usage Usage // zero where the server counts none, or by time
}

// maxTranscript is the most bytes that are read of an answer: a day of speech has about
// a megabyte.
const maxTranscript = 8 << 20

// Transcribe makes one request and returns what the recording says. The error is a
// *TranscriptionError, or the cause of ctx's end; the attempt has it, too.
func (t *Transcriber) Transcribe(ctx context.Context, r Recording) (text string, attempt Attempt, err error) {
	attempt = Attempt{Model: t.cfg.Model, At: time.Now()}
	limited, cancel := context.WithTimeoutCause(ctx, t.cfg.Timeout, errTimeout)
	defer cancel()
	said, err := t.ask(limited, r)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case limited.Err() != nil:
		err = t.explain(errTimeout)
	default:
		err = t.explain(err)
	}
	attempt.Took, attempt.Usage, attempt.Err = time.Since(attempt.At), said.usage, err
	if t.cfg.Attempted != nil {
		t.cfg.Attempted(attempt)
	}
	return said.text, attempt, err
}

func (t *Transcriber) ask(ctx context.Context, r Recording) (said transcript, err error) {
	req, err := t.request(ctx, r)
	if err != nil {
		return said, err
	}
	resp, err := t.http.Do(req)
	if err != nil {
		return said, err
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a part is good enough
		return said, &statusError{status: resp.StatusCode, retryAfter: retryAfter(resp.Header, time.Now()), body: t.secrets.Hide(string(body))}
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxTranscript+1))
	switch {
	case err != nil:
		return said, err
	case len(body) > maxTranscript:
		return said, errTooLong
	}
	return readTranscript(body)
}

// request returns the form that go-openai would send. go-openai holds all of it in
// memory, and drops the usage and the headers of the answer.
func (t *Transcriber) request(ctx context.Context, r Recording) (*http.Request, error) {
	var around bytes.Buffer
	form := multipart.NewWriter(&around)
	for _, field := range [][2]string{{"model", t.cfg.Model}, {"language", t.cfg.Language}, {"response_format", "json"}} {
		if field[1] != "" {
			_ = form.WriteField(field[0], field[1]) // a buffer takes everything
		}
	}
	_, _ = form.CreateFormFile("file", r.Name)
	head := bytes.Clone(around.Bytes())
	around.Reset()
	_ = form.Close()
	body := io.MultiReader(bytes.NewReader(head), r.Data, bytes.NewReader(around.Bytes()))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.cfg.BaseURL+"/audio/transcriptions", io.NopCloser(body))
	if err != nil {
		return nil, err
	}
	req.ContentLength = int64(len(head)) + r.Size + int64(around.Len())
	req.Header.Set("Content-Type", form.FormDataContentType())
	if t.cfg.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+t.cfg.APIKey)
	}
	return req, nil
}

// readTranscript reads an answer:
// https://platform.openai.com/docs/api-reference/audio/json-object
func readTranscript(body []byte) (said transcript, err error) {
	var answer struct {
		Text  *string `json:"text"`
		Usage struct {
			Input  float64 `json:"input_tokens"`
			Output float64 `json:"output_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(body, &answer); err != nil && !isMistyped(err) || answer.Text == nil {
		return said, fmt.Errorf("%w: %s", errNotJSON, excerpt(string(body)))
	}
	return transcript{text: strings.TrimSpace(*answer.Text), usage: Usage{Prompt: int(answer.Usage.Input), Completion: int(answer.Usage.Output)}}, nil
}

// TranscriptionError is why a recording was not transcribed.
type TranscriptionError struct {
	Words      string        // for the user and the model
	Refused    bool          // the server does not take this recording; another attempt can't help
	RetryAfter time.Duration // the wait that the server asks for, 0 for none
	Err        error         // for the log, without secrets
}

func (e *TranscriptionError) Error() string { return e.Err.Error() }
func (e *TranscriptionError) Unwrap() error { return e.Err }

// explain returns the error of a call.
func (t *Transcriber) explain(err error) error {
	var refused *statusError
	var withURL *url.Error
	if errors.As(err, &withURL) {
		err = withURL.Err
	}
	failed := &TranscriptionError{Words: "the transcription server can't be reached", Err: t.secrets.HideIn(err)}
	switch {
	case errors.Is(err, errTimeout):
		failed.Words = "the transcription server took too long"
	case errors.Is(err, errNotJSON), errors.Is(err, errTooLong):
		failed.Words = "the transcription server gave an answer that makes no sense"
	case errors.As(err, &refused):
		failed.Err = fmt.Errorf("status %d: %w%s", refused.status, refused, keyAdvice(refused.status, "transcription"))
		failed.RetryAfter = refused.retryAfter
		failed.Words, failed.Refused = refusedTranscription(refused)
	}
	return failed
}

// keyAdvice returns what the operator is told beside the refusal of a key that a section
// of the configuration holds; "" for other refusals.
func keyAdvice(status int, section string) string {
	if status != http.StatusUnauthorized && status != http.StatusForbidden {
		return ""
	}
	return "; check api_key in [" + section + "]"
}

// refusedTranscription returns in words why a server has refused a recording, and
// whether it always will.
func refusedTranscription(e *statusError) (words string, always bool) {
	switch {
	case e.isQuota():
		return "the account at the transcription server has no credit left", false
	case e.status == http.StatusTooManyRequests:
		return "the transcription server is busy", false
	case e.isPassing():
		return "the transcription server is in trouble", false
	case e.status == http.StatusUnauthorized, e.status == http.StatusForbidden, e.isUnknownModel():
		return "the transcription server is not set up correctly; the gateway's operator knows more", false
	case e.status == http.StatusRequestEntityTooLarge:
		return "it is too large for the transcription server", true
	}
	return "the transcription server can't read it", true
}
