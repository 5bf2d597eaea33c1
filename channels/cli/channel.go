// Package cli is the terminal channel: a line editor with streamed, rendered
// answers on a terminal, and plain line-by-line answers on a pipe.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/term"

	"parley/channels"
	"parley/conversation"
)

// ChannelName is the name of the channel, with which its session keys begin.
const ChannelName = "cli"

// Command is one of the gateway's commands, offered by tab completion.
type Command struct {
	Name        string // with its slash: "/new"
	Description string // one line
}

// Options configures a terminal channel.
type Options struct {
	Session string    // name of the session; "" means DefaultSession
	In      io.Reader // nil means os.Stdin
	Out     io.Writer // nil means os.Stdout
	Err     io.Writer // without Interactive, takes the reasons for which there is no answer, or none yet; nil discards them

	// Interactive asks for the line editor. Without it Message, or else all of In, is
	// one message, or with Lines every line of In. Answers are plain text then.
	// IsInteractive tells which fits.
	Interactive bool
	Message     string
	Lines       bool

	// Drain is how long answers under way are awaited when ctx of Run ends. Without Interactive the user is told.
	Drain time.Duration

	// Size is the terminal's columns and rows; nil asks the terminal that Out is.
	Size func() (width, height int)

	Vision      bool      // the model sees pictures; else the user is told so before one is sent
	Files       Files     // keeps the files that are sent from the line editor; nil: none can be
	Folder      string    // where files that come with replies are put; "" means the working folder
	HistoryPath string    // file that keeps the lines typed; "" keeps them in memory only
	Intro       []string  // lines printed first by the line editor, such as the model
	Commands    []Command // for tab completion
	Logger      *slog.Logger

	// Recap has the last messages of the conversation that goes on, which the line editor
	// shows behind Intro.
	Recap []conversation.Message

	// Thought returns what the model thought before the latest answer, "" for nothing, for
	// ThoughtCommand in the line editor; nil: there is no such command.
	Thought func(ctx context.Context) (string, error)

	// Abandoned is called, without Interactive, when Out is a pipe that nobody
	// reads any more; nil does nothing. Without it, the chat would wait for an answer
	// that nobody reads.
	Abandoned func()
}

// IsInteractive reports whether in and out are a terminal on which a line can
// be edited.
func IsInteractive(in, out *os.File) bool {
	return os.Getenv("TERM") != "dumb" && term.IsTerminal(int(in.Fd())) && term.IsTerminal(int(out.Fd()))
}

// Channel is a terminal or a pipe with one session.
type Channel struct {
	key      conversation.Key
	frontend frontend
	folder   string        // where files that come with replies are put
	files    Files         // keeps the files that are sent; nil: no files can be sent
	printed  atomic.Int64  // ID of the delivery of which a piece was printed last
	ready    chan struct{} // closed when Run can show deliveries
	gone     chan struct{} // closed when Run has ended

	seesPictures bool
	warned       string // text of the message whose user was warned last that the model sees no pictures; for Run's goroutine
}

// frontend is what differs between a terminal and a pipe.
type frontend interface {
	// run takes messages until the input ends. It calls ready when deliver may be called.
	run(ctx context.Context, post postFunc, ready func()) error
	// deliver prints a piece of a reply. Its address, and preview's, is the id of the
	// message that is answered.
	deliver(ctx context.Context, p piece) error
	preview(address, text string)
}

// piece is the text of a reply, or one of its pictures.
type piece struct {
	address, text string
	continues     bool // the piece before it was printed last
	more          bool // another piece follows
	interim       bool // the piece is a question, or about one: the reply is still to come
}

// postFunc accepts a message under an id that newID returned.
type postFunc func(ctx context.Context, id, text string) error

var (
	_ channels.Source    = (*Channel)(nil)
	_ channels.Sink      = (*Channel)(nil)
	_ channels.Previewer = (*Channel)(nil)
	_ channels.Fetcher   = (*Channel)(nil)
)

// New checks the options and returns a channel. It does not touch the terminal
// yet.
func New(o Options) (*Channel, error) {
	if o.Session == "" {
		o.Session = DefaultSession
	}
	if err := ValidateSession(o.Session); err != nil {
		return nil, err
	}
	if o.In == nil {
		o.In = os.Stdin
	}
	if o.Out == nil {
		o.Out = os.Stdout
	}
	if o.Err == nil {
		o.Err = io.Discard
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Size == nil {
		o.Size = sizeOf(o.Out)
	}
	c := &Channel{
		key:    Key(o.Session),
		folder: o.Folder,

		seesPictures: o.Vision,

		ready: make(chan struct{}),
		gone:  make(chan struct{}),
	}
	if o.Interactive {
		c.files = o.Files
		c.frontend = newChat(o)
	} else {
		c.frontend = newPipe(o)
	}
	return c, nil
}

// Name returns "cli".
func (c *Channel) Name() string { return ChannelName }

// Key returns the session's key.
func (c *Channel) Key() conversation.Key { return c.key }

// Run takes messages until the user leaves, the input ends or ctx ends, and then
// returns nil. It may be called once.
func (c *Channel) Run(ctx context.Context, accept channels.AcceptFunc) error {
	defer close(c.gone)
	post := func(ctx context.Context, id, text string) error {
		in := conversation.Inbound{
			Key:      c.key,
			SourceID: id,
			Address:  c.addressPrefix() + id,
			Sender:   conversation.Sender{ID: "local", Name: "you"},
			Text:     text,
		}
		if err := c.attach(ctx, &in); err != nil {
			return err
		}
		return accept(ctx, nil, in)
	}
	return c.frontend.run(ctx, post, func() { close(c.ready) })
}

// Split returns the whole text as one part: a terminal has no limit.
func (c *Channel) Split(d conversation.Delivery) []channels.Part {
	return []channels.Part{{Text: d.Text, Plain: d.Text, File: channels.TranscriptOf(d)}}
}

var (
	errNoTerminal = errors.New("the terminal could not be opened; the reply waits for the next chat")
	errSession    = errors.New("the session is not the one open in this terminal; the reply waits for its own")
)

// elsewhereRetry is how long a reply waits that this terminal can't show.
const elsewhereRetry = time.Minute

// Send prints a reply, and saves its file in the folder. It waits until the
// terminal is ready for output, and still prints after Run has returned, since
// runs may end during shutdown. It refuses a reply to another session for now, so
// that it stays due.
func (c *Channel) Send(ctx context.Context, d conversation.Delivery, p channels.Part) (string, error) {
	if d.Key != c.key {
		return "", &channels.SendError{RetryAfter: elsewhereRetry, Err: errSession}
	}
	if err := c.waitReady(ctx); err != nil {
		return "", err
	}
	next := piece{address: strings.TrimPrefix(d.Address, c.addressPrefix()), text: p.Text, continues: p.Index > 0 && c.printed.Load() == d.ID, more: p.Index < pieces(d)-1, interim: d.Interim}
	if p.File != nil {
		next.text = strings.TrimSpace(p.Text + "\n\n" + save(c.folder, p.File))
	}
	if err := c.frontend.deliver(ctx, next); err != nil {
		return "", &channels.SendError{RetryAfter: elsewhereRetry, Err: err}
	}
	c.printed.Store(d.ID)
	return strconv.FormatInt(d.ID, 10), nil
}

// pieces returns in how many pieces a reply is printed: its text, and each picture.
func pieces(d conversation.Delivery) int {
	if strings.TrimSpace(d.Text) == "" {
		return max(len(d.Pictures), 1)
	}
	return 1 + len(d.Pictures)
}

func (c *Channel) waitReady(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-ctx.Done():
		return &channels.SendError{Err: ctx.Err()}
	case <-c.gone:
	}
	select {
	case <-c.ready:
		return nil
	default:
		return &channels.SendError{RetryAfter: elsewhereRetry, Err: errNoTerminal}
	}
}

// Preview shows the text of an answer that is still being written, if it is for
// this session.
func (c *Channel) Preview(_ conversation.Key, _ int64, address, text string) {
	if id, own := strings.CutPrefix(address, c.addressPrefix()); own {
		c.frontend.preview(id, text)
	}
}

// Thinking passes all of the model's reasoning so far in a call for the answer to the message at the
// address; "" begins another call. It does not block.
func (c *Channel) Thinking(address, text string) {
	if chat, ok := c.frontend.(*chat); ok && text != "" {
		chat.thoughts.grow(strings.TrimPrefix(address, c.addressPrefix()), time.Now())
	} else if ok {
		chat.thoughts.clear()
	}
}

// ForgetThought reports, before the reply to the message at the address arrives, that the model's
// reasoning for it was not stored.
func (c *Channel) ForgetThought(address string) {
	if chat, ok := c.frontend.(*chat); ok {
		chat.thoughts.take(strings.TrimPrefix(address, c.addressPrefix()))
	}
}

// addressPrefix returns the beginning of the addresses of this session's messages. The
// message's id follows, so that each reply belongs to one message.
func (c *Channel) addressPrefix() string { return string(c.key) + "/" }

// End must be called when no more replies are sent. Without a line editor, it returns ErrFailed if a message got no
// answer. If the answer is still to come, it says so on Options.Err.
func (c *Channel) End() error {
	if p, ok := c.frontend.(*pipe); ok {
		return p.end()
	}
	return nil
}

// Failed reports, before the reply to the message at the address arrives, that there is no answer:
// the reply says why. Without a line editor the reply goes to Options.Err, and Run and End
// return ErrFailed.
func (c *Channel) Failed(address string) {
	if p, ok := c.frontend.(*pipe); ok {
		p.fail(strings.TrimPrefix(address, c.addressPrefix()))
	}
}

// Waiting says why the answer to the message at the address does not come yet. With a line
// editor, Preview shows it; without one it goes to Options.Err.
func (c *Channel) Waiting(address, words string) {
	if p, ok := c.frontend.(*pipe); ok {
		p.wait(strings.TrimPrefix(address, c.addressPrefix()), words)
	}
}

// newID returns an id that is unique and sorts by time.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("message id: %w", err)
	}
	return id.String(), nil
}

// sizeOf returns a function for the size of the terminal that w is, which returns
// 80x24 when w is none.
func sizeOf(w io.Writer) func() (int, int) {
	return func() (int, int) {
		if f, ok := w.(*os.File); ok {
			if width, height, err := term.GetSize(int(f.Fd())); err == nil && width > 0 && height > 0 {
				return width, height
			}
		}
		return 80, 24
	}
}
