// Package console serves the operator's pages: the state of the gateway, sessions
// and how each answer came about, failed deliveries, pairing, servers of tools, the
// configuration, and the log. It shows what the store holds, and stores nothing itself but the
// last lines of the log.
package console

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"time"

	"parley/activity"
	"parley/conversation"
	"parley/conversation/approvals"
	"parley/conversation/budgets"
	"parley/conversation/dbhealth"
	"parley/conversation/deferred"
	"parley/conversation/pairing"
	"parley/conversation/reminders"
	"parley/embedding"
	"parley/httpserver"
	"parley/llm"
	"parley/pages"
	"parley/sessions"
)

// Deps holds what the console depends on.
type Deps struct {
	Store     *conversation.Store
	Feed      *activity.Feed
	Sessions  *sessions.Service
	Lines     *Lines                 // the newest lines of the log
	Channels  []conversation.Account // channels that are served now, with the bots that serve them
	Settings  []Setting              // the effective configuration
	Facts     []Fact                 // about the gateway, for the configuration page
	Cost      CostFunc               // nil: nothing has a price
	Currency  string                 // currency that is shown behind costs
	Caps      *budgets.Budgets       // nil: nothing is capped
	Reminders *reminders.Reminders
	Window    WindowFunc // what the model would be sent now

	// Retry has every message that waits for a model tried at once, and those answered again that failed by a fault of the
	// model's server.
	Retry func(context.Context) (deferred.Retried, error)

	// Look makes the sender of a channel send what is due in a session.
	Look func(channel string, key conversation.Key)

	Log *slog.Logger
	Now func() time.Time // the clock of the store; nil: time.Now

	// IsEnding reports whether the gateway ends; nil: it does not.
	IsEnding func() bool

	// Models returns the states of the models; nil: none are shown.
	Models func() []llm.Health

	// Servers returns the servers of tools; nil: there are none.
	Servers func() []ToolServer

	// MayAnswer reports whether the operator may answer a question about a tool call. nil: always.
	MayAnswer func(q approvals.Question) bool
	// Answered tells the loop of a session that a question was answered.
	Answered func(key conversation.Key)

	// Embeddings returns the state of the vectors of messages; nil: there is no embedding
	// model.
	Embeddings func(context.Context) (embedding.Status, error)
}

// CostFunc returns what tokens of a model cost. known is false for a model
// without a price.
type CostFunc func(model string, prompt, cached, completion int64) (cost float64, known bool)

// Fact is a property of the gateway that is no key of its configuration.
type Fact struct{ Name, Value string }

// Console serves the pages.
type Console struct {
	Deps
	templates *pages.Set
}

// New returns a console.
func New(deps Deps) *Console {
	if deps.Now == nil {
		deps.Now = time.Now
	}
	return &Console{Deps: deps, templates: pages.NewSet(subfolder(embedded, "templates"), functions(deps.Now))}
}

//go:embed templates
var embedded embed.FS

func subfolder(files fs.FS, name string) fs.FS {
	folder, err := fs.Sub(files, name)
	if err != nil {
		panic(err) // the name is not one of a folder
	}
	return folder
}

// Serve adds the console's pages to a server.
func (c *Console) Serve(server *httpserver.Server) {
	person := func(pattern string, handle http.HandlerFunc) {
		server.Handle(pattern, httpserver.Person, handle)
	}
	person("GET /console", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/console/", http.StatusSeeOther)
	})
	person("GET /console/{$}", c.showOverview)
	person("GET /console/sessions", c.showSessions)
	person("GET /console/session", c.showSession)
	person("POST /console/session/archive", httpserver.WithForm(c.archive))
	person("POST /console/session/reset", httpserver.WithForm(c.reset))
	person("POST /console/session/delete", httpserver.WithForm(c.deleteSession))
	person("GET /console/search", c.showFound)
	person("GET /console/conversation/{id}", c.showTranscript)
	person("GET /console/conversation/{id}/image/{seq}/{n}", c.sendImage)
	person("GET /console/conversation/{id}/trace", c.showTrace)
	person("GET /console/conversation/{id}/window", c.showWindow)
	person("POST /console/conversation/{id}/rename", httpserver.WithForm(c.rename))
	person("POST /console/conversation/{id}/delete", httpserver.WithForm(c.deleteConversation))
	person("GET /console/confirm", c.askToConfirm)
	person("GET /console/deliveries", c.showDeliveries)
	person("POST /console/deliveries/{id}/retry", httpserver.WithForm(c.retryDelivery))
	person("POST /console/retry", httpserver.WithForm(c.retryMessages))
	person("GET /console/pairing", c.showPairing)
	person("POST /console/pairing/approve", httpserver.WithForm(c.approve))
	person("POST /console/pairing/revoke", httpserver.WithForm(c.revoke))
	person("GET /console/tools", c.showTools)
	person("POST /console/approvals/{id}", httpserver.WithForm(c.answerCall))
	person("GET /console/reminders", c.showReminders)
	person("POST /console/reminders/delete", httpserver.WithForm(c.deleteReminder))
	person("GET /console/configuration", c.showConfiguration)
	person("GET /console/log", c.showLog)
	person("GET /console/log/events", c.followLog)
}

// page is the frame of every page of the console.
type page struct {
	Section string // the entry of the navigation that the page belongs to
	Title   string
	Done    string // what was just done, "" for nothing
	Body    any

	Troubles []string // what keeps the gateway from its work
}

// show answers with a page, named by its file.
func (c *Console) show(w http.ResponseWriter, r *http.Request, file, section, title string, body any, scripts ...string) {
	frame := pages.Frame{
		Title: title, Section: "console",
		Styles: []string{"console/console.css"}, Scripts: append(scripts, "console/sections.js"),
		Body: page{Section: section, Title: title, Done: doneText(r.URL.Query().Get("done")), Body: body,
			Troubles: c.troubles()},
	}
	if file == "overview.html" {
		frame.Styles = append(frame.Styles, "vendor/uplot/uplot.css")
	}
	if err := c.templates.Page(w, http.StatusOK, file, frame); err != nil {
		c.fail(w, r, err)
	}
}

// troubles returns what keeps the gateway from its work.
func (c *Console) troubles() []string {
	list := dbhealth.New(c.Store).Troubles()
	if c.IsEnding != nil && c.IsEnding() {
		list = append(list, "The gateway is ending: it takes no more messages, and finishes the answers under way.")
	}
	return list
}

// fail answers a request that failed: with a reason that helps the reader, or
// else with a hint at the log, which has the details.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, conversation.ErrNotFound), errors.Is(err, conversation.ErrNoSession):
		httpserver.Problem(w, r, http.StatusNotFound, "There is no such session or conversation. It may have been deleted.")
	case errors.Is(err, conversation.ErrInvalid):
		httpserver.Problem(w, r, http.StatusBadRequest, "The address of this page is not one that the console has given.")
	case errors.Is(err, conversation.ErrNotFailed), errors.Is(err, pairing.ErrNotFound):
		httpserver.Problem(w, r, http.StatusConflict, "That was done already, or can't be done any more. Load the page before this one again.")
	case errors.Is(err, conversation.ErrMoved):
		httpserver.Problem(w, r, http.StatusServiceUnavailable, "The gateway can't reach its database at the moment, so there is nothing to show. The log and /readyz say why.")
	case conversation.IsDiskFull(err): // the store has logged it
		httpserver.Problem(w, r, http.StatusServiceUnavailable, "The disk of the database is full: make room, and work goes on by itself.")
	case conversation.IsDamaged(err):
		httpserver.Problem(w, r, http.StatusInternalServerError, "A part of the database that this page shows is damaged: "+dbhealth.Advice+".")
	case errors.Is(err, sessions.ErrEnding):
		httpserver.Problem(w, r, http.StatusServiceUnavailable, "The gateway is ending. Nothing was changed; try again when it runs again.")
	case errors.Is(err, sessions.ErrBusy), errors.Is(err, context.DeadlineExceeded):
		httpserver.Problem(w, r, http.StatusConflict, "The session is at work, perhaps in another process. Nothing was changed; try again in a moment.")
	case errors.Is(err, context.Canceled):
		// nobody waits for an answer
	default:
		c.Log.Error("console page failed", "path", r.URL.Path, "error", err)
		httpserver.Problem(w, r, http.StatusInternalServerError, "Something went wrong. The gateway's log has the details.")
	}
}
