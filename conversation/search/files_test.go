package search

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/internal/db"
	"parley/conversation/media"
	"parley/conversation/storetest"
)

// sendFile stores a message with a text file, of which the message contains the first held bytes.
func sendFile(t testing.TB, s *conversation.Store, key conversation.Key, id int, name, text string, held int) files.File {
	t.Helper()
	in := storetest.Say(key, id, "look at "+name)
	in.Attachments = []media.Attachment{{Name: name, MediaType: "text/plain", Ref: "there"}}
	storetest.Accept(t, s, in)
	turn := storetest.Begin(t, s, key, 1000)
	kept, err := files.New(s).Keep(t.Context(), files.Incoming{Session: key, Inbound: turn.Waiting[0].ID, Attachment: in.Attachments[0],
		Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}, files.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	run := storetest.Answered(key, turn, "Seen.")
	m := &run.Messages[0]
	from := len(m.Content) + 1
	m.Content += "\n" + text[:held]
	m.Files = []media.File{{ID: kept.ID, Name: name, Lines: media.Extent{From: from, To: len(m.Content)}, Body: media.Extent{From: from, To: len(m.Content)}}}
	storetest.Commit(t, s, run)
	return kept
}

// logText returns the text of a long log with numbered lines.
func logText(lines int) string {
	var b strings.Builder
	for n := range lines {
		fmt.Fprintf(&b, "line %d says nothing of interest to anybody\n", n)
	}
	return b.String()
}

// Words beyond the part of a long file that its message contains are found, with their position in the file.
func TestPagesOfLongFilesAreFound(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Tell(t, s, "cli:room", storetest.User("where is the oak?"))
	before := logText(12_000)
	long := before + "the blue Schatz lies under the old oak\n" + logText(3_000)
	kept := sendFile(t, s, "cli:room", 1, "log.txt", long, files.InMessage)
	sendFile(t, s, "cli:other", 2, "other.txt", logText(9_000)+"another Schatz\n", files.InMessage)
	sendFile(t, s, "cli:room", 3, "short.txt", "a Schatz of no worth", 20)
	storetest.Chores(t, s)

	hits := mustSearch(t, s, Query{Key: "cli:room", Words: "blue schatz", WithoutTools: true})
	if len(hits) != 1 || hits[0].File == nil {
		t.Fatalf("found %+v", hits)
	}
	want := FilePage{ID: kept.ID, Name: "log.txt", Page: int64(len(before))/files.PageSize + 1, Pages: int64(len(long)+files.PageSize-1) / files.PageSize}
	if h := hits[0]; *h.File != want || !strings.Contains(h.Snippet.Mark("[", "]"), "the [blue] [Schatz] lies") || h.Role != conversation.RoleUser {
		t.Errorf("found %+v, %+v; want %+v", h, *h.File, want)
	}
	for query, want := range map[string]int{
		"schatz":                  2, // the long file, and the message that holds the short one
		`"old oak"`:               1,
		"interest":                1, // one message, however many pages
		"line 11999":              1,
		"oak":                     2,
		`"schatz lies" nowhereto`: 1,
	} {
		if hits := mustSearch(t, s, Query{Key: "cli:room", Words: query}); len(hits) != want {
			t.Errorf("%s: found %d messages, want %d", query, len(hits), want)
		}
	}
	if hits := mustSearch(t, s, Query{Words: "schatz"}); len(hits) != 3 {
		t.Errorf("everywhere: found %d messages", len(hits))
	}
	found, _, err := New(s).Conversations(t.Context(), ConversationQuery{Words: "blue scha", Limit: 5})
	if err != nil || len(found) != 2 || len(found[0].Hits) != 2 || found[0].Hits[0].File == nil || found[0].Hits[1].File != nil {
		t.Errorf("conversations: %+v, %v", found, err)
	}
}

// The pages of files are removed from the index with their conversation.
func TestPagesOfDeletedFilesAreNotFound(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	sendFile(t, s, "cli:room", 1, "log.txt", logText(20_000)+"xylophone\n", files.InMessage)
	storetest.Chores(t, s)
	conversations := mustSearch(t, s, Query{Words: "xylophone"})
	if len(conversations) != 1 {
		t.Fatalf("found %+v", conversations)
	}
	if _, err := s.Delete(t.Context(), "cli:room", conversations[0].Conversation); err != nil {
		t.Fatal(err)
	}
	if hits := mustSearch(t, s, Query{Words: "xylophone"}); len(hits) > 0 {
		t.Errorf("found %+v", hits)
	}
	storetest.Chores(t, s)
	for _, query := range []string{
		`SELECT count(*) FROM file_pages`, `SELECT count(*) FROM unread_files`,
		db.Either(`SELECT count(*) FROM messages_fts_docsize`, `SELECT count(*) FROM message_words`),
		db.Either(`SELECT count(*) FROM messages_ranks_docsize`, `SELECT count(*) FROM message_ranks`),
		db.Either(`SELECT count(*) FROM messages_fts_data WHERE instr(block, CAST('xylophone' AS BLOB))`, `SELECT 0`),
		db.Either(`SELECT count(*) FROM messages_ranks_data WHERE instr(block, CAST('xylophon' AS BLOB))`, `SELECT 0`),
	} {
		var n int
		if err := s.DB().QueryRowContext(t.Context(), query).Scan(&n); err != nil || n > 0 {
			t.Errorf("%s: %d, %v", query, n, err)
		}
	}
}

// A text that is extracted from a file later, such as the words of a recording, is found.
func TestTextsThatAreMadeLaterAreFound(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	kept := sendFile(t, s, "cli:room", 1, "talk.ogg", "OggS\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00", 0)
	storetest.Chores(t, s)
	form := files.Form{Kind: files.FormText, MediaType: "text/plain", Data: []byte("she plays the xylophone")}
	if err := files.New(s).AddForm(t.Context(), kept, form); err != nil {
		t.Fatal(err)
	}
	storetest.Chores(t, s)
	hits := mustSearch(t, s, Query{Key: "cli:room", Words: "xylophone"})
	if len(hits) != 1 || hits[0].File == nil || *hits[0].File != (FilePage{ID: kept.ID, Name: "talk.ogg", Page: 1, Pages: 1}) {
		t.Errorf("found %+v", hits)
	}
}

// A file whose text has become shorter is searched while the index still has the pages of the longer text.
func TestFileIsSearchedWhoseTextHasBecomeShorter(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	kept := sendFile(t, s, "cli:room", 1, "log.txt", logText(9_000)+"xylophone\n", files.InMessage)
	storetest.Chores(t, s)
	s.DB().StopChores()
	form := files.Form{Kind: files.FormText, MediaType: "text/plain", Data: []byte("nothing left")}
	if err := files.New(s).AddForm(t.Context(), kept, form); err != nil {
		t.Fatal(err)
	}
	hits := mustSearch(t, s, Query{Key: "cli:room", Words: "xylophone"})
	if len(hits) != 1 || hits[0].File == nil || len(hits[0].Snippet) > 0 {
		t.Errorf("found %+v", hits)
	}
}
