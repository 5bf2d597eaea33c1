package tools

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/conversation/storetest"
	"parley/filecontent"
)

// keepFile keeps a file of a message of a session.
func keepFile(t *testing.T, s *conversation.Store, key conversation.Key, id int, name, text string) files.File {
	t.Helper()
	in := storetest.Say(key, id, "look")
	in.Attachments = []media.Attachment{{Name: name, MediaType: "text/plain", Ref: "there"}}
	storetest.Accept(t, s, in)
	turn := storetest.Begin(t, s, key, 1000)
	kept, err := files.New(s).Keep(t.Context(), files.Incoming{Session: key, Inbound: turn.Waiting[0].ID, Attachment: in.Attachments[0],
		Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}, files.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	run := storetest.Answered(key, turn, "Seen.")
	run.Messages[0].Files = []media.File{{ID: kept.ID, Name: name}}
	storetest.Commit(t, s, run)
	return kept
}

func TestReadFileShowsPagesAndFindsLines(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	kept := files.New(s)
	var text strings.Builder
	for n := range 3000 {
		fmt.Fprintf(&text, "Zeile %d über das Wetter\n", n)
	}
	text.WriteString("the treasure is under the oak\n")
	mine := keepFile(t, s, "cli:desk", 1, "report.txt", text.String())
	keepFile(t, s, "cli:desk", 2, "tool.bin", "\x00\x01\x02")
	secret := keepFile(t, s, "cli:other", 3, "secret.txt", "the other's secret treasure")
	r := registry(t, ReadFile(kept, filecontent.New(kept)))
	ctx := WithSession(t.Context(), Session{Key: "cli:desk"})
	call := func(arguments string) string {
		got, _ := r.Call(ctx, ReadFileName, arguments, time.Minute)
		return got.Text
	}
	for arguments, want := range map[string]string{
		`{}`:                             fmt.Sprintf("%d. report.txt, text/plain", mine.ID),
		`{"file":"report.txt"}`:          "[report.txt, page 1 of 7]\nZeile 0 über das Wetter\n",
		`{"file":"REPORT"}`:              "[goes on on page 2]",
		`{"file":"report.txt","page":7}`: "the treasure is under the oak\n\n[end]",
		`{"file":"report.txt","page":8}`: "error: report.txt has 7 pages",
		`{"file":"report.txt","query":"Treasure oak"}`:           "page 7: the treasure is under the oak",
		`{"file":"report.txt","query":"elephants"}`:              `report.txt has no line with "elephants"`,
		fmt.Sprintf(`{"file":"%d","query":"treasure"}`, mine.ID): "page 7: the treasure",
		`{"file":"tool.bin"}`:                                    "error: tool.bin can't be read: it is no text",
		`{"file":"secret.txt"}`:                                  `error: there is no file "secret.txt" in this chat`,
		fmt.Sprintf(`{"file":"%d"}`, secret.ID):                  "error: there is no file",
		`{"file":1}`:                                             "error: read_file takes an object",
	} {
		if got := call(arguments); !strings.Contains(got, want) || strings.Contains(got, "other's") {
			t.Errorf("%s: %s", arguments, got[:min(len(got), 300)])
		}
	}
	whole := ""
	for page := range 7 {
		_, shown, _ := strings.Cut(call(fmt.Sprintf(`{"file":"report.txt","page":%d}`, page+1)), "]\n")
		if at := strings.LastIndex(shown, "\n["); at >= 0 {
			shown = shown[:at]
		}
		whole += shown
	}
	if whole != text.String() {
		t.Error("the pages are not the text")
	}
	if got, err := r.Call(t.Context(), ReadFileName, `{}`, time.Minute); err == nil {
		t.Errorf("without a session: %s", got.Text)
	}
}

// A file of one long line, as results of tools often are, is searched as well: each word is found wherever it
// stands, and the model is shown it.
func TestReadFileFindsWordsInALongLine(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	kept := files.New(s)
	text := strings.Repeat("larger ", 3000)
	words := map[string]int{}
	for i, at := range []int{3000, 4096 - 4, 8192 - 1, 12288, 16384 - 5} {
		word := fmt.Sprintf("Needle%d", i)
		text = text[:at] + " " + word + " " + text[at+len(word)+2:]
		words[word] = 1 + at/readFilePage
	}
	keepFile(t, s, "cli:desk", 1, "result.json", text)
	r := registry(t, ReadFile(kept, filecontent.New(kept)))
	ctx := WithSession(t.Context(), Session{Key: "cli:desk"})
	for word, page := range words {
		got, err := r.Call(ctx, ReadFileName, fmt.Sprintf(`{"file":"result.json","query":"%s"}`, strings.ToLower(word)), time.Minute)
		_, lines, _ := strings.Cut(got.Text, "\n")
		if err != nil || strings.Count(got.Text, "page ") != 1 || !strings.Contains(lines, word) || !strings.HasPrefix(lines, fmt.Sprintf("page %d: ", page)) || len(lines) > 2*readFileLine {
			t.Errorf("%s: %.600s, %v", word, got.Text, err)
		}
	}
}
