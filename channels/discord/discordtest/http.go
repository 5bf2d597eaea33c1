package discordtest

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// handler answers one route. A nil result is a 204; errors are Verdicts.
type handler func(r *request) (result any, err error)

// created is a result with the status 201.
type created struct{ value any }

// handlers are the routes that the server knows. The pattern is also the
// route's name in Fail, Calls and Log.
func (s *Server) handlers() map[string]handler {
	return map[string]handler{
		"GET /gateway":                       s.getGateway,
		"GET /gateway/bot":                   s.getGatewayBot,
		"GET /users/@me":                     s.getMe,
		"GET /users/{user}":                  s.getUser,
		"POST /users/@me/channels":           s.openDM,
		"GET /oauth2/applications/@me":       s.getApplication,
		"GET /applications/@me":              s.getApplication,
		"GET /guilds/{guild}":                s.getGuild,
		"GET /guilds/{guild}/channels":       s.getGuildChannels,
		"GET /guilds/{guild}/threads/active": s.getActiveThreads,
		"GET /guilds/{guild}/members/{user}": s.getMember,

		"GET /channels/{channel}":                             s.getChannel,
		"PATCH /channels/{channel}":                           s.patchChannel,
		"GET /channels/{channel}/messages":                    s.getMessages,
		"POST /channels/{channel}/messages":                   s.createMessage,
		"GET /channels/{channel}/messages/{message}":          s.getMessage,
		"PATCH /channels/{channel}/messages/{message}":        s.editMessage,
		"DELETE /channels/{channel}/messages/{message}":       s.deleteMessage,
		"POST /channels/{channel}/messages/{message}/threads": s.threadFromMessage,
		"POST /channels/{channel}/threads":                    s.createThread,
		"POST /channels/{channel}/typing":                     s.startTyping,
		"PUT /channels/{channel}/thread-members/@me":          s.joinThread,

		"GET /applications/{application}/commands":                s.getCommands,
		"PUT /applications/{application}/commands":                s.putCommands,
		"GET /applications/{application}/guilds/{guild}/commands": s.getCommands,
		"PUT /applications/{application}/guilds/{guild}/commands": s.putCommands,

		"POST /interactions/{interaction}/{token}/callback":         s.callback,
		"POST /webhooks/{application}/{token}":                      s.followUp,
		"GET /webhooks/{application}/{token}/messages/{message}":    s.getAnswer,
		"PATCH /webhooks/{application}/{token}/messages/{message}":  s.editAnswer,
		"DELETE /webhooks/{application}/{token}/messages/{message}": s.deleteAnswer,
	}
}

func (s *Server) newRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, h := range s.handlers() {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.route(w, r, h) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.violate("no such route: %s %s", r.Method, r.URL.Path)
		s.mu.Unlock()
		refuse(w, NotFound)
	})
	return mux
}

var apiPrefix = regexp.MustCompile(`^/api(/v[0-9]+)?/`)

// serve passes a request to the part of the server that its path names.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	prefix := apiPrefix.FindString(r.URL.Path)
	switch {
	case r.URL.Path == "/" && websocket.IsWebSocketUpgrade(r):
		s.serveGateway(w, r)
	case strings.HasPrefix(r.URL.Path, "/attachments/"):
		s.serveUpload(w, r)
	case prefix == "/api/v9/" || prefix == "/api/v10/":
		below, address := *r, *r.URL
		address.Path, address.RawPath = r.URL.Path[len(prefix)-1:], ""
		below.URL = &address
		s.routes.ServeHTTP(w, &below)
	default:
		s.mu.Lock()
		s.violate("no such path: %s %s", r.Method, r.URL.Path)
		s.mu.Unlock()
		refuse(w, NotFound)
	}
}

// route answers a request to a known route: it checks the authorization, reads the body,
// applies what a test set for the route and the rate limits, and calls the handler.
func (s *Server) route(w http.ResponseWriter, r *http.Request, h handler) {
	req := &request{Request: r, route: r.Pattern}
	if err := s.authorize(req); err != nil {
		s.fail(w, req, err)
		return
	}
	err := req.read(w)
	verdict := s.record(req)
	verdict.pause(r)
	if !verdict.passes() {
		s.fail(w, req, verdict)
		return
	}
	if v := s.limit(w, req); !v.passes() {
		s.fail(w, req, v)
		return
	}
	var result any
	if err == nil {
		result, err = h(req)
	}
	if err != nil {
		s.fail(w, req, err)
		return
	}
	answer(w, result)
}

// authorize checks the headers. Interactions and their webhooks carry their
// authorization in the path.
// https://discord.com/developers/docs/reference#authentication
// https://discord.com/developers/docs/reference#user-agent
func (s *Server) authorize(r *request) error {
	if agent := r.UserAgent(); !strings.HasPrefix(agent, "DiscordBot (") {
		s.mu.Lock()
		s.violate("%s: User-Agent %q: Discord blocks what does not begin with \"DiscordBot (\"", r.route, agent)
		s.mu.Unlock()
	}
	open := strings.Contains(r.route, "{token}") || r.route == "GET /gateway"
	if !open && r.Header.Get("Authorization") != "Bot "+Token {
		return Unauthorized
	}
	return nil
}

// record counts the request and returns the verdict that a test set for it.
func (s *Server) record(r *request) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[r.route]++
	if r.route != "POST /channels/{channel}/messages" {
		s.log = append(s.log, Call{r.route, r.URL.Path, r.URL.RawQuery, r.body})
	}
	s.broadcast()
	if next := s.failures[r.route]; len(next) > 0 {
		s.failures[r.route] = next[1:]
		return next[0]
	}
	c := s.channels[r.PathValue("channel")]
	if c == nil || r.Method == http.MethodGet || len(c.refusals) == 0 {
		return Verdict{}
	}
	v := c.refusals[0]
	c.refusals = c.refusals[1:]
	return v
}

// pause waits as long as the verdict says, or until the client disconnects.
func (v Verdict) pause(r *http.Request) {
	if v.Delay > 0 {
		timer := time.NewTimer(v.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
	}
	if v.Wait != nil {
		select {
		case <-v.Wait:
		case <-r.Context().Done():
		}
	}
}

// fail answers with the refusal, and records it if it was the client's mistake.
func (s *Server) fail(w http.ResponseWriter, r *request, err error) {
	v, ok := err.(Verdict)
	if !ok {
		v = ServerError()
	}
	if s.config.Foreign {
		v = v.foreign()
	}
	s.mu.Lock()
	switch v.Code {
	case 50006, 50035, 50109:
		detail, _ := json.Marshal(v.Errors)
		s.violate("%s %s: %d %s %s", r.Method, r.URL.Path, v.Code, v.Message, detail)
	}
	if v.Status == 429 {
		s.counts.Limited++
	}
	s.mu.Unlock()
	refuse(w, v)
}

func answer(w http.ResponseWriter, result any) {
	if result == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	status := http.StatusOK
	if c, ok := result.(created); ok {
		status, result = http.StatusCreated, c.value
	}
	raw, err := json.Marshal(result)
	if err != nil {
		refuse(w, ServerError())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(raw)
}

// refuse answers with an error in Discord's format.
func refuse(w http.ResponseWriter, v Verdict) {
	if v.Drop {
		panic(http.ErrAbortHandler)
	}
	if v.Body != "" {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(v.Status)
		io.WriteString(w, v.Body)
		return
	}
	body := map[string]any{"code": v.Code, "message": v.Message}
	if v.Message == "" {
		body["message"] = http.StatusText(v.Status)
	}
	if v.Errors != nil {
		body["errors"] = v.Errors
	}
	if v.Status == http.StatusTooManyRequests {
		v.limitHeaders(w.Header())
		body = map[string]any{"message": v.Message, "retry_after": v.RetryAfter.Seconds(), "global": v.Global}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(v.Status)
	json.NewEncoder(w).Encode(body)
}
