package web

import (
	"context"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"

	"parley/channels/hosted"
	"parley/conversation"
	"parley/httpserver"
	"parley/pages"
)

//go:embed templates
var embedded embed.FS

var templates = pages.NewSet(subfolder(embedded, "templates"), template.FuncMap{"long": isLong})

// isLong reports whether a page shows a message in a box that can be scrolled.
func isLong(text string) bool { return len(text) > 4000 || strings.Count(text, "\n") > 40 }

func subfolder(files fs.FS, name string) fs.FS {
	folder, err := fs.Sub(files, name)
	if err != nil {
		panic(err) // the name is not one of a folder
	}
	return folder
}

// otherParts are the other parts of the gateway, which pages link to where they
// are served.
var otherParts = []link{{"Console", "/console/"}, {"API", "/api/docs"}}

// Serve adds the channel's pages, and the assets that all pages share, to a
// server.
func (c *Channel) Serve(server *httpserver.Server) {
	c.server = server
	c.links = sync.OnceValue(func() []link { // with the first page, when all parts have been added
		return slices.DeleteFunc(slices.Clone(otherParts), func(l link) bool { return !server.Serves(l.URL) })
	})
	server.Handle("GET "+pages.AssetsPath, httpserver.Public, pages.Assets())
	person := func(pattern string, handle http.HandlerFunc, options ...httpserver.Option) {
		server.Handle(pattern, httpserver.Person, handle, options...)
	}
	person("GET /{$}", c.showNew)
	person("GET /search", c.showFound)
	person("GET /import", c.showImport)
	person("POST /import", c.takeImport, httpserver.MaxBody(maxImport))
	person("POST /import/stop", c.stopImport)
	person("GET /chat/{name}/export", c.export)
	person("GET /chat/{name}/conversation/{conversation}/export", c.export)
	person("GET "+chatsPath, c.showChats)
	person("GET /chat/{name}", c.showChat)
	person("GET /chat/{name}/events", c.follow)
	person("GET /chat/{name}/file/{notice}", c.sendFile)
	person("GET /chat/{name}/delete", c.askToDelete)
	person("GET /chat/{name}/settings", c.showSettings)
	person("GET /chat/{name}/conversation/{conversation}", c.showConversation)
	person("GET /chat/{name}/conversation/{conversation}/image/{seq}/{n}", c.sendImage)
	person("GET /chat/{name}/conversation/{conversation}/attachment/{seq}/{n}", c.sendAttachment)
	person("GET /chat/{name}/conversation/{conversation}/delete", c.askToDelete)

	person("POST /chat/{name}/messages", c.takeMessage, httpserver.MaxBody(c.maxBody()))
	person("POST /chat/{name}/edit", httpserver.WithForm(c.takeEdit), httpserver.MaxBody(hosted.MaxBody))
	person("POST /chat/{name}/version", httpserver.WithForm(c.chooseVersion))
	person("POST /chat/{name}/rename", httpserver.WithForm(c.rename))
	person("POST /chat/{name}/pin", httpserver.WithForm(c.pin))
	person("POST /chat/{name}/instructions", httpserver.WithForm(c.setInstructions))
	person("POST /chat/{name}/reminders/delete", httpserver.WithForm(c.deleteReminder))
	person("POST /chat/{name}/archive", c.archive)
	person("POST /chat/{name}/conversation/{conversation}/reopen", c.reopen)
	person("POST /chat/{name}/delete", c.delete)
	person("POST /chat/{name}/conversation/{conversation}/delete", c.delete)
}

// chatName returns the name of the chat that a request is about. Where no chat
// can have that name it answers the request, and returns false.
func chatName(w http.ResponseWriter, r *http.Request) (string, bool) {
	name := r.PathValue("name")
	if !nameForm.MatchString(name) {
		httpserver.Problem(w, r, http.StatusNotFound, "A chat can't have this name.")
		return "", false
	}
	return name, true
}

// conversationOf returns the conversation that a request is about: the one that
// it names, else the active one of the chat. Where there is none it answers the
// request, and ok is false.
func (c *Channel) conversationOf(w http.ResponseWriter, r *http.Request) (name string, found conversation.Conversation, ok bool) {
	name, ok = chatName(w, r)
	if !ok {
		return name, found, false
	}
	var err error
	if id := r.PathValue("conversation"); id != "" {
		found, err = c.Store.Conversation(r.Context(), id)
	} else {
		found, err = c.Store.Active(r.Context(), keyOf(name))
	}
	if err == nil && (found.Key != keyOf(name) || found.Messages == 0) {
		err = conversation.ErrNotFound
	}
	if err != nil {
		c.fail(w, r, err)
		return name, found, false
	}
	return name, found, true
}

// fail answers a request that failed: with a reason that helps the reader, or
// else with a hint at the log, which has the details.
func (c *Channel) fail(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, conversation.ErrNotFound), errors.Is(err, conversation.ErrNoSession):
		httpserver.Problem(w, r, http.StatusNotFound, "There is no such conversation. It may have been deleted.")
	case errors.Is(err, conversation.ErrInvalid):
		httpserver.Problem(w, r, http.StatusUnprocessableEntity, "This address is not one that a page of this chat has given. Go back, and load the page again.")
	case errors.Is(err, conversation.ErrMoved):
		httpserver.Problem(w, r, http.StatusServiceUnavailable, "The gateway can't reach its database at the moment, so nothing is stored. Try again later.")
	case conversation.IsDiskFull(err): // the store has logged it
		httpserver.Problem(w, r, http.StatusServiceUnavailable, "The gateway can't store anything at the moment. Try again later.")
	case conversation.IsDamaged(err):
		httpserver.Problem(w, r, http.StatusInternalServerError, "What is stored here can't be read: the database of this gateway is damaged. Its operator has been told.")
	case !c.gate.IsOpen():
		httpserver.Problem(w, r, http.StatusServiceUnavailable, "The gateway is starting or shutting down. Nothing was changed; try again in a moment.")
	case errors.Is(err, context.Canceled):
		// nobody waits for an answer
	default:
		c.Log.Error("web chat page failed", "path", r.URL.Path, "error", err)
		httpserver.Problem(w, r, http.StatusInternalServerError, "Something went wrong. The gateway's log has the details.")
	}
}

func quoted(text string) string {
	return "“" + text[:min(len(text), 80)] + "”"
}
