package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/search"
)

const (
	hitsAtOnce   = 100  // messages that are looked for at once
	mostHits     = 2000 // messages that are looked for at all
	foundInTurn  = 5    // messages of a turn that are shown as found; more say little more
	contextTurns = 3    // the best turns, which are shown with the turn before and after them
)

// search returns the turns in which messages were found, the best first, each once: as many
// as fit on the page, or on half of it if the model names no limit. The best few are shown with the turn before and
// after them.
func (r *recall) search(ctx context.Context, a recallArguments) (string, error) {
	query, where, err := r.query(a)
	if err != nil {
		return "", err
	}
	limit := a.limit(recallMost)
	found, err := r.find(ctx, query, a.Offset+limit+1)
	if err != nil {
		return "", err
	}
	if a.Offset >= len(found) {
		return nothingFound(a, where), nil
	}
	if a.Limit == 0 {
		r.tokens /= 2
	}
	p, err := r.found(ctx, found[a.Offset:], min(limit, len(found)-a.Offset), a.Offset == 0)
	if err != nil {
		return "", err
	}
	read := a.Offset + len(p.blocks)
	p.frame = func(left int) (head, foot string) {
		head = fmt.Sprintf("Found for %s in %s, the best first; “>” stands before each message that was found.", a.words(), where)
		next := 0
		if read-left < len(found) {
			next = read - left
		}
		return head, r.searchFoot(query.Conversation == "", next)
	}
	return p.fit(r.counter, r.tokens), nil
}

// query returns what the archive is asked, and says where it looks.
func (r *recall) query(a recallArguments) (query search.Query, where string, err error) {
	query = search.Query{Key: r.session.Key, Words: a.Query, ExceptTool: RecallName}
	where = "this conversation"
	switch a.Scope {
	case "", "conversation":
		query.Conversation = r.session.Conversation
	case "session":
		where = "this chat"
	default:
		return query, "", fmt.Errorf("there is no scope %q; allowed are conversation, session", a.Scope)
	}
	if strings.TrimSpace(a.Query) == "" {
		return query, "", errors.New("search needs a query: a few words, or a \"quoted phrase\"")
	}
	if len(a.Query) > recallQueryBytes {
		return query, "", fmt.Errorf("the query has %d bytes; a few words are enough, at most %d bytes", len(a.Query), recallQueryBytes)
	}
	return query, where, nil
}

// words returns the beginning of what is searched for, in quotation marks.
func (a recallArguments) words() string { return quoted(oneLine(a.Query, 100)) }

func nothingFound(a recallArguments, where string) string {
	if a.Offset > 0 {
		return fmt.Sprintf("Nothing further in %s has the words %s.", where, a.words())
	}
	text := fmt.Sprintf("Nothing in %s has the words %s. Try fewer or other words", where, a.words())
	if a.Scope != "session" {
		text += ", or scope session for the earlier conversations of this chat"
	}
	return text + "."
}

// searchFoot returns the last line of a page of matches: what the model can ask for next. next is the offset of further matches, 0
// if there are none.
func (r *recall) searchFoot(everywhere bool, next int) string {
	var more []string
	if next > 0 {
		more = append(more, fmt.Sprintf("next matches: offset %d", next))
	}
	around := "around a turn: action range with start_turn and end_turn"
	if everywhere {
		return footOf(append(more, around+", and conversation where one is named")...)
	}
	return footOf(append(more, around+r.ofConversation(), "earlier conversations of this chat: scope session")...)
}

// turnKey names a turn.
type turnKey struct {
	conversation string
	turn         int64
}

// foundTurn is a turn in which messages were found.
type foundTurn struct {
	turnKey
	hits []search.Hit // messages of the turn that were found, the best first
}

// find returns the turns in which messages were found, the best first: as many as wanted, if there are so many.
func (r *recall) find(ctx context.Context, query search.Query, wanted int) ([]foundTurn, error) {
	var found []foundTurn
	at := map[turnKey]int{}
	for query.Limit = hitsAtOnce; query.Skip < mostHits && len(found) < wanted; query.Skip += query.Limit {
		hits, err := r.archive.Find(ctx, query)
		if err != nil {
			return nil, err
		}
		for _, h := range hits {
			key := turnKey{h.Conversation, h.Turn}
			i, known := at[key]
			if !known {
				i = len(found)
				at[key], found = i, append(found, foundTurn{turnKey: key})
			}
			found[i].hits = append(found[i].hits, h)
		}
		if len(hits) < query.Limit {
			break
		}
	}
	return found, nil
}

// found returns a page with so many of the turns, or as many as have room. best says that they begin with the best.
func (r *recall) found(ctx context.Context, found []foundTurn, limit int, best bool) (p page, err error) {
	shown := map[turnKey]bool{}
	for _, f := range found {
		shown[f.turnKey] = true
	}
	for tokens := 0; len(p.blocks) < limit && tokens <= r.tokens; {
		n := len(p.blocks)
		b, err := r.foundBlock(ctx, found[n], best && n < contextTurns, shown)
		if err != nil {
			return p, err
		}
		b.tokens = r.counter.Text(b.text()) + 1
		tokens += b.tokens
		p.blocks = append(p.blocks, b)
	}
	return p, nil
}

// foundBlock returns a turn in which messages were found, and on request the turn before and after it, unless these are
// shown already.
func (r *recall) foundBlock(ctx context.Context, f foundTurn, withContext bool, shown map[turnKey]bool) (b block, err error) {
	first, last := f.turn, f.turn
	if withContext {
		first, last = first-1, last+1
	}
	turns, err := r.archive.Turns(ctx, r.session.Key, f.conversation, first, last)
	if err != nil {
		return b, err
	}
	var lines []line
	read := false
	for _, turn := range turns {
		key := turnKey{f.conversation, turn.Number}
		switch {
		case turn.Number == f.turn:
			read = true
			lines = append(lines, r.turnLines(f, turn.Messages)...)
		case !shown[key]:
			shown[key] = true
			lines = append(lines, r.turnLines(foundTurn{turnKey: key, hits: f.hits[:1]}, turn.Messages)...)
		}
	}
	if !read { // the file is damaged before it
		lines = r.turnLines(f, nil)
	}
	return block{head: strings.TrimPrefix(lines[0].text, "\n"), lines: lines[1:]}, nil
}

// turnLines returns a turn with a line above it that says where it stands. Of its messages it shows the question, those that were
// found with the one before and after each, and the last. A message that was found is shown whole or, if it is long, by its
// snippet; others are shortened.
func (r *recall) turnLines(f foundTurn, messages []conversation.Message) []line {
	hits := map[int64]search.Hit{}
	for _, h := range f.hits[:min(len(f.hits), foundInTurn)] {
		if h.Turn == f.turn {
			hits[h.Seq] = h
		}
	}
	at := f.hits[0].At
	if len(messages) > 0 {
		at = messages[0].At
	}
	head := fmt.Sprintf("\nTurn %d", f.turn)
	if f.conversation != r.session.Conversation {
		head += fmt.Sprintf(" of %s, conversation %s", titleOf(f.hits[0].Title), f.conversation)
	}
	lines := []line{{text: head + ", " + when(at)}}
	left := 0
	messages = slices.DeleteFunc(messages, isLookup)
	for i, m := range messages {
		h, hit := hits[m.Seq]
		switch {
		case hit:
			lines = append(lines, leftOut(&left)...)
			lines = append(lines, hitLines(m, h, at)...)
			delete(hits, m.Seq)
		case i == 0 || i == len(messages)-1 || isHit(f, messages[i-1].Seq) || isHit(f, messages[i+1].Seq):
			lines = append(lines, leftOut(&left)...)
			lines = append(lines, linesOf(m, besideHit)...)
		default:
			left++
		}
	}
	for _, h := range f.hits { // the turn is too long to be read to its end
		if _, unread := hits[h.Seq]; unread {
			m := conversation.Message{Role: h.Role, ToolName: h.ToolName, Sender: h.Sender, Content: h.Snippet.Mark("**", "**"), At: h.At}
			lines = append(lines, marked(linesOf(m, wholeHit), m.At, at)...)
		}
	}
	return lines
}

// isLookup reports whether a message is an earlier call of this tool, or its result. A message that also has a text is none.
func isLookup(m conversation.Message) bool {
	return m.Role == conversation.RoleTool && m.ToolName == RecallName ||
		m.Content == "" && len(m.ToolCalls) > 0 && !slices.ContainsFunc(m.ToolCalls, func(c conversation.ToolCall) bool { return c.Name != RecallName })
}

func isHit(f foundTurn, seq int64) bool {
	return slices.ContainsFunc(f.hits[:min(len(f.hits), foundInTurn)], func(h search.Hit) bool { return h.Seq == seq })
}

// leftOut returns a line for the messages that are not shown, if there are any, and counts from zero again.
func leftOut(n *int) []line {
	if *n == 0 {
		return nil
	}
	text := fmt.Sprintf("[%s not shown]", plural(int64(*n), "message"))
	*n = 0
	return []line{{text: text}}
}

// hitLines returns the lines of a message that was found in a turn that began at a time.
func hitLines(m conversation.Message, h search.Hit, began time.Time) []line {
	if h.File != nil {
		m.Content = shorten(m.Content, besideHit) + "\n" + inFile(*h.File) + ": " + h.Snippet.Mark("**", "**")
	} else if written(m) > wholeHit {
		m.Content = h.Snippet.Mark("**", "**")
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for i := range m.ToolCalls {
			m.ToolCalls[i].Arguments = "…"
		}
	}
	return marked(linesOf(m, wholeMessage), m.At, began)
}

// inFile says where in a file of a message the words are.
func inFile(f search.FilePage) string {
	return fmt.Sprintf("[in %s (file %d), page %d: read_file shows it]", cmp.Or(oneLine(f.Name, 60), "a file"), f.ID, f.Page)
}

// marked puts the mark of what was found before the first line, with the time if the day is another than that on which
// the turn began.
func marked(lines []line, at, began time.Time) []line {
	if len(lines) > 0 {
		mark := "> "
		if at.Sub(began).Abs() > 12*time.Hour {
			mark += when(at) + " "
		}
		lines[0].text = mark + lines[0].text
	}
	return lines
}

// written returns how many bytes a message and its tool calls have.
func written(m conversation.Message) int {
	n := len(m.Content)
	for _, call := range m.ToolCalls {
		n += len(call.Arguments)
	}
	return n
}
