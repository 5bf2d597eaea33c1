package llmtest

import (
	"encoding/json"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
)

// Recording is one request to transcribe a recording that was not refused.
type Recording struct {
	Name     string
	Data     []byte
	Model    string
	Language string
}

// Heard is how a recording is answered.
type Heard struct {
	Text   string
	Input  int         // tokens of usage; 0 = none is said
	Status int         // status of an error that is sent instead; 0 = none
	Header http.Header // headers beside the usual ones
	Wait   <-chan struct{}
}

// maxRecording is the most bytes that OpenAI takes of a recording, and recordingTypes are
// the endings of names that it takes:
// https://platform.openai.com/docs/api-reference/audio/createTranscription
const maxRecording = 25 << 20

var recordingTypes = []string{"flac", "m4a", "mp3", "mp4", "mpeg", "mpga", "oga", "ogg", "wav", "webm"}

// Hear sets how recordings are answered. By default each says "heard" and its size.
func (s *Server) Hear(hear func(Recording) Heard) { s.set(func(to *settings) { to.hear = hear }) }

// Recordings returns the recordings that were sent so far and not refused.
func (s *Server) Recordings() []Recording {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.recordings)
}

func (s *Server) serveTranscription(w http.ResponseWriter, r *http.Request) {
	now := s.now()
	recording, refused := now.readRecording(r)
	if refused != nil {
		s.refuse(w, refused)
		return
	}
	s.mu.Lock()
	s.recordings = append(s.recordings, recording)
	s.mu.Unlock()
	heard := now.hear(recording)
	if heard.Wait != nil {
		select {
		case <-heard.Wait:
		case <-r.Context().Done():
			return
		case <-s.closed.Done():
			return
		}
	}
	for name, values := range heard.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	if heard.Status != 0 {
		(&refusal{status: heard.Status, kind: "server_error", message: http.StatusText(heard.Status)}).write(w)
		return
	}
	body := map[string]any{"text": heard.Text}
	if heard.Input > 0 {
		body["usage"] = map[string]any{"type": "tokens", "input_tokens": heard.Input, "output_tokens": len(heard.Text)/4 + 1}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// readRecording reads a request, or says why it is refused.
func (s *settings) readRecording(r *http.Request) (recording Recording, refused *refusal) {
	if refused := s.checkKey(r); refused != nil {
		return recording, refused
	}
	form, err := r.MultipartReader()
	if err != nil {
		return recording, refuse("", "", "We could not parse the body of your request: %s", err)
	}
	for {
		part, err := form.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			return recording, refuse("", "", "We could not parse the body of your request: %s", err)
		}
		data, err := io.ReadAll(io.LimitReader(part, maxRecording+1))
		if err != nil {
			return recording, refuse("", "", "We could not parse the body of your request: %s", err)
		}
		switch part.FormName() {
		case "file":
			recording.Name, recording.Data = part.FileName(), data
		case "model":
			recording.Model = string(data)
		case "language":
			recording.Language = string(data)
		case "response_format":
			if string(data) != "json" {
				return recording, refuse("response_format", "unsupported_value", "response_format '%s' is not compatible.", data)
			}
		default:
			return recording, refuse(part.FormName(), "unknown_parameter", "Unknown parameter: '%s'.", part.FormName())
		}
	}
	return recording, recording.check()
}

func (r Recording) check() *refusal {
	switch extension := strings.TrimPrefix(path.Ext(r.Name), "."); {
	case r.Model == "":
		return refuse("model", "missing_required_parameter", "you must provide a model parameter")
	case len(r.Data) > maxRecording:
		return &refusal{status: http.StatusRequestEntityTooLarge, message: "Maximum content size limit (26214400) exceeded."}
	case len(r.Data) == 0:
		return refuse("file", "invalid_value", "Audio file is too short. Minimum audio length is 0.1 seconds.")
	case !slices.Contains(recordingTypes, extension):
		return refuse("file", "invalid_value", "Unrecognized file format. Supported formats: %s", strings.Join(recordingTypes, ", "))
	case r.Language != "" && len(r.Language) != 2:
		return refuse("language", "invalid_language_format", "Language parameter must be specified in ISO-639-1 format.")
	}
	return nil
}
