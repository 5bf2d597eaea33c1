package cli

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"

	"github.com/ergochat/readline"
	"golang.org/x/term"
)

const (
	promptWidth = 2 // columns of chat.prompt

	// A paste beyond these is shown as a label, and put in its place when the
	// message is sent.
	maxPasteLines = 10
	maxPasteRunes = 1000

	historyLines = 1000
	// historyBreak stands for a line end in the history file, which has one
	// entry a line.
	historyBreak = '\u2028'
)

// editorEvents is how the editor tells the chat about keys. All methods are
// called on the goroutine that is in readLine, and may write to the screen.
type editorEvents interface {
	// interrupt handles Ctrl-C; true gives up the line.
	interrupt() bool
	// leaving comes before a key that may end the editing: nothing may be
	// written until edited or the end of readLine.
	leaving()
	// edited comes after every other key, with the line, the cursor's place in it,
	// and what to show about it.
	edited(line []rune, pos int, hint []string)
	// cleared comes when the screen is to be emptied.
	cleared()
	// suspend comes before the process stops for the shell.
	suspend()
}

// editor is the line editor. The library edits the line and draws nothing: it would draw a
// line that is taller than the screen again and again.
type editor struct {
	rl       *readline.Instance
	keys     *keyReader
	tty      *tty
	raw      *rawMode
	events   editorEvents
	commands []Command
	searched string            // what the search in the history shows below the line
	pastes   map[string]string // texts of pastes, by the label that the line shows
	pasted   int
}

func newEditor(o Options, events editorEvents) (*editor, error) {
	e := &editor{
		keys:     newKeyReader(o.In),
		events:   events,
		commands: o.Commands,
		pastes:   make(map[string]string),
	}
	e.tty = &tty{w: o.Out}
	e.raw = &rawMode{in: o.In, out: e.tty}
	if err := e.raw.enter(); err != nil {
		e.keys.end()
		return nil, fmt.Errorf("the terminal can't be used for editing: %w", err)
	}
	rl, err := readline.NewFromConfig(&readline.Config{
		HistoryFile:            historyFile(o.HistoryPath, o.Logger),
		HistoryLimit:           historyLines,
		DisableAutoSaveHistory: true,
		HistorySearchFold:      true,
		InterruptPrompt:        "\n", // nothing
		EOFPrompt:              "\n",
		Stdin:                  e.keys,
		Stdout:                 libraryOutput{e},
		Stderr:                 libraryOutput{e},
		Listener:               e.listen,
		FuncFilterInputRune:    e.filter,
		FuncIsTerminal:         func() bool { return false }, // draw nothing
		FuncMakeRaw:            e.raw.resume,
		FuncExitRaw:            e.raw.pause,
		FuncGetSize:            o.Size,
		FuncOnWidthChanged:     func(func()) {},
	})
	if err != nil {
		e.keys.end()
		e.raw.leave()
		return nil, err
	}
	if o.HistoryPath != "" {
		_ = os.Chmod(o.HistoryPath, 0o600) // the library rewrites it with wider rights
	}
	e.rl = rl
	return e, nil
}

// libraryOutput takes what the library writes although it draws nothing: the bell, and how
// a search in the history goes, which is shown as a hint.
type libraryOutput struct{ *editor }

var searchShown = regexp.MustCompile(`(?:failing )?(?:bck|fwd)-i-search: [^\x1b]*`)

func (o libraryOutput) Write(b []byte) (int, error) {
	if found := searchShown.Find(b); found != nil {
		o.searched = string(found)
	}
	if bytes.ContainsRune(b, readline.CharBell) {
		return o.tty.Write([]byte{readline.CharBell})
	}
	return len(b), nil
}

// close restores the terminal.
func (e *editor) close() {
	e.keys.end()
	_ = e.rl.Close()
	e.raw.leave()
}

// readLine edits one message, which begins with draft. It returns io.EOF or
// readline.ErrInterrupt.
func (e *editor) readLine(draft string) (string, error) {
	e.rl.SetDefault(draft)
	return e.rl.ReadLine()
}

// expand replaces labels by the pasted texts that they stand for.
func (e *editor) expand(line string) string {
	for label, text := range e.pastes {
		line = strings.ReplaceAll(line, label, text)
	}
	return line
}

// remember adds a line to the history. It leaves out a line with labels, which
// mean nothing in another process.
func (e *editor) remember(line string) {
	if e.expand(line) != line {
		return
	}
	_ = e.rl.SaveToHistory("") // back from the entry that the arrows stopped at
	_ = e.rl.SaveToHistory(strings.ReplaceAll(line, "\n", string(historyBreak)))
}

// filter sees every key before the editor does.
func (e *editor) filter(r rune) (rune, bool) {
	switch r {
	case readline.CharInterrupt:
		if e.keys.over() {
			e.events.leaving()
			return r, true
		}
		if !e.events.interrupt() {
			return 0, false
		}
		e.events.leaving()
	case readline.CharEnter, readline.CharCtrlJ, readline.CharEOT:
		e.events.leaving()
	case readline.CharCtrlZ:
		e.events.suspend()
		e.events.leaving()
		e.raw.suspended = true
	case 0, 15, 17, 22, 24, 28, 29, 30:
		return 0, false // keys that the editor would insert as they are
	default:
		if unicode.IsControl(r) && r > readline.CharBackspace {
			return 0, false
		}
	}
	return r, true
}

// listen sees every key after the editor has handled it, except those that end
// the editing.
func (e *editor) listen(line []rune, pos int, key rune) ([]rune, int, bool) {
	if key == 0 {
		return nil, 0, false
	}
	var hint []string
	changed := false
	switch key {
	case pasteMark:
		line, pos = e.splice(line, pos)
		changed = true
	case readline.CharTab:
		line, pos, hint = e.complete(line, pos)
		changed = true
	case readline.CharCtrlL:
		e.events.cleared()
	}
	if e.searched != "" {
		hint = append(hint, e.searched)
		e.searched = ""
	}
	for i, r := range line {
		if r == historyBreak {
			line[i], changed = '\n', true
		}
	}
	e.events.edited(line, pos, hint)
	return line, pos, changed
}

// splice replaces the mark of a paste by the paste, or by its label.
func (e *editor) splice(line []rune, pos int) ([]rune, int) {
	if pos > 0 && line[pos-1] == pasteMark {
		line = append(line[:pos-1], line[pos:]...)
		pos--
	}
	text := e.keys.takePaste()
	runes := []rune(text)
	if lines := strings.Count(strings.TrimRight(text, "\n"), "\n") + 1; lines > maxPasteLines || len(runes) > maxPasteRunes {
		e.pasted++
		label := fmt.Sprintf("[paste %d: %s]", e.pasted, count(lines, "line"))
		if lines == 1 {
			label = fmt.Sprintf("[paste %d: %s]", e.pasted, count(len(runes), "character"))
		}
		e.pastes[label] = text
		runes = []rune(label)
	}
	joined := append(append(append([]rune{}, line[:pos]...), runes...), line[pos:]...)
	return joined, pos + len(runes)
}

// complete completes the command being typed as far as it is unambiguous. The
// hint lists the candidates.
func (e *editor) complete(line []rune, pos int) ([]rune, int, []string) {
	if pos > 0 && line[pos-1] == '\t' {
		line = append(line[:pos-1], line[pos:]...)
		pos--
	}
	head := string(line[:pos])
	if !strings.HasPrefix(head, "/") || strings.ContainsAny(head, " \n") {
		return line, pos, nil
	}
	var fits []Command
	for _, c := range e.commands {
		if strings.HasPrefix(c.Name, head) {
			fits = append(fits, c)
		}
	}
	if len(fits) == 0 {
		return line, pos, nil
	}
	done := fits[0].Name
	for _, c := range fits[1:] {
		for !strings.HasPrefix(c.Name, done) {
			done = done[:len(done)-1]
		}
	}
	if len(fits) == 1 {
		done += " "
	}
	var hint []string
	if done == head {
		for _, c := range fits {
			hint = append(hint, fmt.Sprintf("  %-12s %s", c.Name, c.Description))
		}
	}
	typed := []rune(done)
	return append(append([]rune{}, typed...), line[pos:]...), len(typed), hint
}

// historyFile makes sure that only the user may read the history, and returns ""
// when it can't be kept.
func historyFile(path string, log *slog.Logger) string {
	if path == "" {
		return ""
	}
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		log.Warn("input history not kept", "error", err)
		return ""
	}
	return path
}

// rawMode sets the mode of the terminal: the chat's from enter to leave, and the
// shell's while the process is suspended.
type rawMode struct {
	in        io.Reader
	out       io.Writer
	state     *term.State
	suspended bool // set just before the editor suspends the process
}

func (m *rawMode) enter() error {
	if f, ok := m.in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		state, err := term.MakeRaw(int(f.Fd()))
		if err != nil {
			return err
		}
		m.state = state
	}
	_, err := io.WriteString(m.out, "\x1b[?2004h") // bracketed paste
	return err
}

func (m *rawMode) leave() {
	_, _ = io.WriteString(m.out, "\x1b[?2004l")
	if f, ok := m.in.(*os.File); ok && m.state != nil {
		_ = term.Restore(int(f.Fd()), m.state)
		m.state = nil
	}
}

// pause and resume are called by the editor around every line, where the mode
// stays on: input between two lines must not be echoed.
func (m *rawMode) pause() error {
	if m.suspended {
		m.leave()
	}
	return nil
}

func (m *rawMode) resume() error {
	if !m.suspended {
		return nil
	}
	m.suspended = false
	return m.enter()
}
