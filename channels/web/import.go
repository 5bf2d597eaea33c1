package web

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"parley/conversation"
	"parley/conversation/transcript"
	"parley/httpserver"
)

// maxImport is how large a file with conversations may be, in bytes.
const maxImport = 2 << 30

// Imports imports files with conversations, each of which becomes a chat of its own, in the
// background, one file at a time.
type Imports interface {
	// Take stores a file durably and begins to import it. A BadFileError says that it holds
	// no conversations, ErrImporting that another file is being imported.
	Take(name string, file io.Reader) error
	// Status returns the import under way, else the last one. The zero value: there was none.
	Status() (ImportStatus, error)
	// Stop ends the import under way, whichever process works on it. What it has imported stays.
	Stop() error
}

// ImportStatus is how far the import of a file is, or how it ended.
type ImportStatus struct {
	Name    string    `json:"name"` // name of the file
	EndedAt time.Time `json:"ended_at"`
	Added   int       `json:"added"`   // conversations that were added
	Known   int       `json:"known"`   // conversations that were there already
	Broken  int       `json:"broken"`  // conversations that can't be read
	Stopped bool      `json:"stopped"` // a person has stopped the import
	Problem string    `json:"problem"` // why the file was not read to its end, or what the import waits for

	UnderWay bool `json:"-"`
	Percent  int  `json:"percent"` // percentage of the file that was read; only while UnderWay
}

// ErrImporting is returned while another file is being imported.
var ErrImporting = errors.New("another file is being imported")

// BadFileError says why a file can't be imported, in words for its owner.
type BadFileError struct{ Err error }

func (e *BadFileError) Error() string { return e.Err.Error() }

// importPage is the page that imports a file, and says what was imported.
type importPage struct {
	Side    side
	Problem string // what is wrong with the file that was sent
	Status  ImportStatus
}

// showImport shows the page; a script gets only how far the import is.
func (c *Channel) showImport(w http.ResponseWriter, r *http.Request) {
	if httpserver.WantsPage(r) {
		c.answerImport(w, r, "")
		return
	}
	status, err := c.Imports.Status()
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.sendFragment(w, r, "import-status", status, "")
}

func (c *Channel) answerImport(w http.ResponseWriter, r *http.Request, problem string) {
	p := importPage{Problem: problem}
	var err error
	if p.Status, err = c.Imports.Status(); err == nil {
		p.Side, err = c.side(r, "")
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	c.render(w, r, "import.html", "Import chats", p)
}

// takeImport takes the file of a form. Its import goes on when the page is left.
func (c *Channel) takeImport(w http.ResponseWriter, r *http.Request) {
	err := c.importSent(r)
	var bad *BadFileError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		c.answerImport(w, r, fmt.Sprintf("The file is too large: it may have %s.", size(maxImport)))
	case errors.As(err, &bad):
		c.answerImport(w, r, "This file can't be imported: "+bad.Error()+".")
	case errors.Is(err, ErrImporting):
		c.answerImport(w, r, "Another file is being imported. Wait for its end, then choose this one again.")
	case err != nil:
		c.fail(w, r, err)
	default:
		http.Redirect(w, r, "/import", http.StatusSeeOther)
	}
}

// stopImport ends the import under way.
func (c *Channel) stopImport(w http.ResponseWriter, r *http.Request) {
	if err := c.Imports.Stop(); err != nil {
		c.fail(w, r, err)
		return
	}
	http.Redirect(w, r, "/import", http.StatusSeeOther)
}

// importSent passes the file of a form on as it comes.
func (c *Channel) importSent(r *http.Request) error {
	parts, err := r.MultipartReader()
	if err != nil {
		return &BadFileError{errors.New("no file was chosen")}
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return &BadFileError{errors.New("no file was chosen")}
		}
		if err != nil {
			return err
		}
		if part.FormName() == "file" {
			return c.Imports.Take(part.FileName(), part)
		}
	}
}

// export sends a conversation as a file: to be read, or as JSON with all messages.
func (c *Channel) export(w http.ResponseWriter, r *http.Request) {
	name, of, ok := c.conversationOf(w, r)
	if !ok {
		return
	}
	format := transcript.Markdown
	if r.URL.Query().Get("format") == string(transcript.JSON) {
		format = transcript.JSON
	}
	file := conversation.Transcript{Conversation: of.ID, Format: string(format), From: 1, Through: of.Messages}
	found, place, seen, err := transcript.Read(r.Context(), c.Store, file)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": fileName(titleOf(of) + "." + string(format))}))
	writer := transcript.NewWriter(w, format, found.Key, place)
	if err = transcript.Copy(writer, found, seen); err == nil {
		err = writer.Close()
	}
	if err != nil {
		c.Log.Warn("export failed", "session", keyOf(name), "error", err)
		panic(http.ErrAbortHandler) // half of a file must not look like a whole one
	}
}
