package httpserver

import (
	"context"
	"encoding/json"
	"net/http"
)

// ReadyFunc reports whether the gateway does its work, and the state of its
// parts, which is encoded as JSON.
type ReadyFunc func(ctx context.Context) (ready bool, parts any)

// handleHealth serves /healthz, which only says that the process lives, and
// /readyz, which answers 200 or 503, and to a client that is signed in also why.
func (s *Server) handleHealth(ready ReadyFunc) {
	s.Handle("GET /healthz", Public, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		SendJSON(w, http.StatusOK, map[string]bool{"alive": true})
	}))
	if ready == nil {
		return
	}
	s.Handle("GET /readyz", Public, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok, parts := ready(r.Context())
		answer := struct {
			Ready bool `json:"ready"`
			Parts any  `json:"parts,omitempty"`
		}{Ready: ok}
		if SignedIn(r) {
			answer.Parts = parts
		}
		status := http.StatusOK
		if !ok {
			status = http.StatusServiceUnavailable
		}
		SendJSON(w, status, answer)
	}))
}

// SendJSON answers a request with a value that JSON can hold.
func SendJSON(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		panic(err) // the value is none that JSON can hold
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that is gone needs no answer
}
