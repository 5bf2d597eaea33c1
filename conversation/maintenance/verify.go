package maintenance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/internal/sqlite"
	"parley/conversation/internal/sqlitefile"
)

// Finding is something wrong with a database.
type Finding struct {
	Text string // a sentence for the operator; titles and other texts of people in it may hold any character
	Lost bool   // something that people have said, or wait for, is lost; else all of it is there
}

// Verified is the result of Verify.
type Verified struct {
	Contents // as far as they can be counted
	Findings []Finding
}

// maxFindings is how many findings of one kind are told one by one.
const maxFindings = 50

// Verify checks a database, also one that a gateway uses, and writes nothing to
// it: what SQLite can check, what the gateway's own tables must agree in, and the
// search index. Of what is damaged it says which sessions, conversations and
// messages are hit. The error is why it could not be checked.
func Verify(ctx context.Context, path string, progress Progress) (v Verified, err error) {
	if err := checkFile(path); err != nil {
		return v, err
	}
	held, err := db.Share(path)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	check := &verification{path: held.Path, withLog: true, progress: progress}
	if held.Alone {
		if err := check.log(ctx, held); err != nil {
			return v, err
		}
	}
	err = check.run(ctx)
	return check.Verified, err
}

// verification is one Verify.
type verification struct {
	Verified
	path     string
	withLog  bool // false where the log belongs to another file
	progress Progress
	hit      map[string]bool // tables that can't be read as a whole
}

func (v *verification) find(lost bool, format string, args ...any) {
	v.Findings = append(v.Findings, Finding{Text: fmt.Sprintf(format, args...), Lost: lost})
}

// log checks whether the log belongs to the file. Where SQLite's own checks only
// tell of damage, they are made again later, and say more.
func (v *verification) log(ctx context.Context, held *db.Access) error {
	err := held.CheckLog(ctx)
	var foreign *db.ForeignLogError
	if !errors.As(err, &foreign) {
		return err
	}
	if foreign.Problem == "" {
		v.withLog = false
		v.find(true, "The write-ahead log %s-wal was written for another file than the one that is there now. What follows is about the file without it.", v.path)
	}
	return nil
}

func (v *verification) run(ctx context.Context) (err error) {
	db, err := sqlite.Open(v.path, sqlite.Options{ReadOnly: true, Immutable: !v.withLog})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	unreadable := explain(v.path, err)
	if unreadable == nil {
		defer func() { err = errors.Join(err, conn.Close()) }()
		if _, err := conn.ExecContext(ctx, "BEGIN"); err != nil { // what is read from here on is of one moment
			return explain(v.path, err)
		}
		v.Contents, unreadable = identify(ctx, conn, v.path)
	}
	if unreadable != nil && !isDamage(unreadable) {
		return unreadable
	}
	damaged := unreadable != nil
	if !damaged {
		v.progress.Report(Checking, 0, 0)
		if damaged, err = v.sqlite(ctx, conn); err != nil {
			return err
		}
	}
	if damaged {
		s, err := v.read(ctx)
		if err != nil {
			return err
		}
		if unreadable != nil && !s.isGateways() {
			return v.nothing(unreadable)
		}
		if v.damage(s); len(v.Findings) == 0 {
			v.find(true, "SQLite can't read all of the file.")
		}
	}
	if conn == nil {
		return nil
	}
	v.progress.Report(Comparing, 0, 0)
	if err := v.rules(ctx, conn); err != nil {
		return err
	}
	if err := v.files(ctx, conn); err != nil && !isDamage(err) {
		return err
	}
	if err := measure(ctx, conn, v.path, &v.Contents); err != nil && !isDamage(err) {
		return err
	}
	return nil
}

// nothing returns the error for a file that is damaged and has nothing of a gateway, or is none of SQLite.
func (v *verification) nothing(unreadable error) error {
	if db.FaultOf(unreadable) == db.NotADatabase {
		return unreadable
	}
	return fmt.Errorf("%s: %w", v.path, errNoTables)
}

const searchDamaged = "The search index is damaged (%s). No message is lost: `gateway repair` makes it anew."

// What SQLite says of indexes that do not match their table. Of damaged pages it
// speaks in other words: those are looked at one by one.
var indexProblem = regexp.MustCompile(`(?:missing from|entries in|entry in|in) index (\S+)`)

// sqlite runs SQLite's checks of the file. damaged means that pages of it can't be read.
func (v *verification) sqlite(ctx context.Context, q db.Querier) (damaged bool, err error) {
	found, err := firstColumn(ctx, q, `PRAGMA integrity_check(1000)`)
	switch {
	case err != nil && strings.Contains(err.Error(), "fts5"): // which ends the check of all else as well
		v.find(false, searchDamaged, err)
	case err != nil && !isDamage(err):
		return false, explain(v.path, err)
	}
	damaged = err != nil
	indexes, others := map[string]int{}, 0
	for _, line := range found {
		switch m := indexProblem.FindStringSubmatch(line); {
		case line == "ok":
		case m != nil:
			indexes[m[1]]++
		case strings.Contains(line, "fts5") || strings.Contains(line, "FTS5"):
			v.find(false, searchDamaged, line)
		case strings.Contains(line, "never used"):
			others++
		case strings.HasPrefix(line, "Tree ") || strings.HasPrefix(line, "***") || strings.Contains(line, "malformed"):
			damaged = true
		default:
			damaged = true
			v.find(true, "SQLite says: %s.", line)
		}
	}
	if others > 0 && !damaged {
		v.find(false, "%d pages of the file belong to nothing. They only take room.", others)
	}
	if damaged { // which mostly is why an index does not match
		return true, nil
	}
	for _, name := range slices.Sorted(maps.Keys(indexes)) {
		v.find(false, "The index %s does not match its table. No message is lost, but it may not be found: `gateway repair` makes the index anew.", name)
	}
	return false, nil
}

// damage returns what is on the damaged pages.
func (v *verification) damage(s *salvage) {
	v.hit = map[string]bool{}
	if len(s.contents) > 0 {
		v.find(true, "The beginning of the file, or its list of tables, can't be read.")
	}
	for _, name := range s.hit() {
		v.hit[name] = true
		if sentence, lost := s.sentence(name); sentence != "" {
			v.find(lost, "%s", sentence)
		}
	}
	v.several(true, "conversations are hit", lossTexts(s.tally.losses()))
	for _, work := range []struct {
		table, one, many string
		indexed          map[int64]int64
	}{
		{"inbox", "message that waits for an answer", "messages that wait for an answer", s.tally.waiting},
		{"outbox", "reply that is to be sent", "replies that are to be sent", s.tally.due},
	} {
		lost := s.tally.lostWork(work.table, work.indexed)
		for _, key := range slices.Sorted(maps.Keys(lost)) {
			v.find(true, "%s: %s can't be read.", sessionName(key), counted(lost[key], work.one, work.many))
		}
	}
}

// read reads all that can be read; while others write, until it has read what
// is of one moment.
func (v *verification) read(ctx context.Context) (*salvage, error) {
	for range 5 {
		pages, err := sqlitefile.OpenPages(v.path, v.withLog)
		if err != nil {
			return nil, err
		}
		s := &salvage{pages: pages, progress: v.progress}
		err = s.run(ctx)
		valid := pages.Valid()
		if err = errors.Join(err, pages.Close()); err != nil {
			return nil, err
		}
		if valid {
			return s, nil
		}
	}
	return nil, errors.New("the database changes too fast to see what is damaged: stop the gateway, and verify it again")
}

// sentence describes the damage of a table or an index, "" if it is reported by
// conversation.
func (s *salvage) sentence(name string) (text string, lost bool) {
	words := map[string]string{
		"sessions":        "The table of sessions",
		"inbox":           "The inbox (messages that wait, and which messages have come)",
		"outbox":          "The outbox (replies to be sent, and which were sent)",
		"runs":            "The table of runs (what was done for each answer)",
		"images":          "The pictures of earlier versions",
		"files":           "The table of files",
		"blobs":           "The table of what files hold",
		"blob_pieces":     "The contents of files",
		"blob_forms":      "The texts of documents, and pictures for the model",
		"cursors":         "The table of how far the platforms were read",
		"pairings":        "The table of who was let in",
		"summaries":       "The summaries",
		"uploads":         "The uploads",
		"upload_pieces":   "The contents of uploads",
		"exchange_counts": "",
		"file_pages":      "", // are made anew, like the next
		"unread_files":    "",
	}
	_, isTable := s.tables[name]
	switch what, known := words[name]; {
	case name == "messages" || name == "conversations":
		return "", true
	case known && what != "":
		return fmt.Sprintf("%s can't be read as a whole%s.", what, idsOf(s.damage[name])), true
	case isTable && !known:
		return fmt.Sprintf("The table %s can't be read as a whole%s.", name, idsOf(s.damage[name])), true
	case ofSearch(name):
		return "The search index is damaged. No message is lost: `gateway repair` makes it anew.", false
	}
	return fmt.Sprintf("The index %s is damaged. Nothing is lost by that: `gateway repair` makes it anew.", name), false
}

// idsOf returns which rows of a table may be damaged, if that is known.
func idsOf(damage []sqlitefile.Damage) string {
	var ranges []string
	for _, d := range damage {
		if d.After > 0 && d.UpTo > d.After && d.UpTo < 1<<62 {
			ranges = append(ranges, fmt.Sprintf("%d to %d", d.After+1, d.UpTo))
		}
	}
	if len(ranges) == 0 || len(ranges) != len(damage) || len(ranges) > 5 {
		return ""
	}
	return ": rows " + strings.Join(ranges, ", ")
}

// lossTexts describes which messages are damaged.
func lossTexts(losses []Loss) (texts []string) {
	for _, l := range losses {
		sentence := l.String()
		if l.After > 0 || l.Before > 0 {
			sentence += ","
		}
		texts = append(texts, sentence+" can't be read.")
	}
	return texts
}

// String names what is missing: "telegram:chat:42, conversation 019df0a2-...
// (\"Lisbon\"): messages 3 to 5, written between 2026-03-01 09:30 and 09:41".
func (l Loss) String() string {
	text := sessionName(l.Session) + ", " + conversationName(l.Conversation, l.Title) + ": "
	switch {
	case l.First == 0:
		return text + "its title and its dates"
	case l.First == l.Last:
		text += fmt.Sprintf("message %d", l.First)
	default:
		text += fmt.Sprintf("messages %d to %d", l.First, l.Last)
	}
	switch {
	case l.After > 0 && l.Before > 0:
		text += fmt.Sprintf(", written between %s and %s", minute(l.After), minute(l.Before))
	case l.After > 0:
		text += ", written after " + minute(l.After)
	case l.Before > 0:
		text += ", written before " + minute(l.Before)
	}
	return text
}

func minute(millis int64) string { return time.UnixMilli(millis).Format("2006-01-02 15:04") }

func sessionName(key conversation.Key) string {
	if key == "" {
		return "a session whose name can't be read"
	}
	return string(key)
}

func conversationName(id, title string) string {
	if id == "" {
		return "a conversation whose id can't be read"
	}
	if title == "" {
		return "conversation " + id
	}
	return fmt.Sprintf("conversation %s (%q)", id, title)
}

func counted(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.FormatInt(n, 10) + " " + many
}

// several adds findings of one kind, and of very many their number.
func (v *verification) several(lost bool, kind string, texts []string) {
	for _, text := range texts[:min(len(texts), maxFindings)] {
		v.find(lost, "%s", text)
	}
	if more := len(texts) - maxFindings; more > 0 {
		v.find(lost, "%d more %s.", more, kind)
	}
}
