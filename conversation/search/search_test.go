package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/branches"
	"parley/conversation/fulltext"
	"parley/conversation/storetest"
)

func mustSearch(t testing.TB, s *conversation.Store, query Query) []Hit {
	t.Helper()
	if query.Limit == 0 {
		query.Limit = 10
	}
	hits, err := New(s).Find(t.Context(), query)
	if err != nil {
		t.Fatalf("search %q: %v", query.Words, err)
	}
	return hits
}

func snippets(hits []Hit) []string {
	var list []string
	for _, h := range hits {
		list = append(list, h.Snippet.Mark("[", "]"))
	}
	return list
}

// Words are found in any script, and in another spelling.
func TestWordsAreFoundInAnyScript(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, query, want string }{
		{"The database migration is done", "migration", "The database [migration] is done"},
		{"The database migration is done", "DATABASE", "The [database] migration is done"},
		{"Un café à Liège", "cafe liege", "Un [café] à [Liège]"},
		{"Un cafe\u0301", "café", "Un [café]"},
		{"Die Straße ist gesperrt", "STRASSE", "Die [Straße] ist gesperrt"},
		{"Вчера решили: Ёлка", "елка", "Вчера решили: [Ёлка]"},
		{"הַשָּׁלוֹם", "השלום", "[הַשָּׁלוֹם]"},
		{"मैंने हिन्दी में लिखा", "हिन्दी", "मैंने [हिन्दी] में लिखा"},
		{"我们决定使用数据库迁移工具", "数据库", "我们决定使用[数据库]迁移工具"},
		{"我们决定使用数据库迁移工具", "具", "我们决定使用数据库迁移工[具]"},
		{"我们决定使用数据库迁移工具", "数", "我们决定使用[数]据库迁移工具"},
		{"东京 2026", "东京", "[东京] 2026"},
		{"明日の会議は東京で行います", "会議", "明日の[会議]は東京で行います"},
		{"サーバーを再起動した", "サーバー", "[サーバー]を再起動した"},
		{"ｻｰﾊﾞｰを再起動", "サーバー", "[ｻｰﾊﾞｰ]を再起動"},
		{"Go言語で書いた", "go言語", "[Go言語]で書いた"},
		{"회의는 서울에서 열립니다", "회의", "[회의]는 서울에서 열립니다"},
		{"ประชุมที่กรุงเทพ", "ที่", "ประชุม[ที่]กรุงเทพ"},
		{"เขาก็มา", "ก็", "เขา[ก็]มา"},
		{"ประชุมที่กรุงเทพ", "กรุงเทพ", "ประชุมที่[กรุงเทพ]"},
		{"call parse_config first", "config", "call parse_[config] first"},
		{"call parse_config first", "parse_config", "call [parse_config] first"},
		{"call parseConfig first", "config", "call parse[Config] first"},
		{"call parseConfig first", "parse", "call [parse]Config first"},
		{"call parseConfig first", "parseconfig", "call [parseConfig] first"},
		{"call parse_config first", "parseConfig", "call [parse_config] first"},
		{"an HTTPServer with sha256", "server sha", "an HTTP[Server] with [sha]256"},
		{"push it to GitHub", "github", "push it to [GitHub]"},
		{"see channels/deliver.go:42", "deliver.go", "see channels/[deliver.go]:42"},
		{"the quick brown fox", `"quick brown"`, "the [quick brown] fox"},
		{"a configuration file", "file config", "a [configuration] [file]"},
		{"Ｐａｒｓｅ it", "parse", "[Ｐａｒｓｅ] it"},
		{"line one\n\n\tline   two", "two", "line one line [two]"},
	} {
		s := storetest.New(t)
		storetest.Tell(t, s, storetest.Chat, storetest.User(c.text))
		storetest.Tell(t, s, storetest.Chat, storetest.User("something else entirely"))
		storetest.Chores(t, s)
		if got := snippets(mustSearch(t, s, Query{Key: storetest.Chat, Words: c.query})); len(got) != 1 || got[0] != c.want {
			t.Errorf("%q in %q: %q, want %q", c.query, c.text, got, c.want)
		}
	}
}

func TestPhraseMatchesItsExactWords(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Tell(t, s, storetest.Chat, storetest.User("brown is the quick fox"))
	storetest.Chores(t, s)
	if got := snippets(mustSearch(t, s, Query{Key: storetest.Chat, Words: `"quick brown"`})); len(got) != 0 {
		t.Errorf("found %q", got)
	}
}

func TestPhraseIsRequiredAndOtherWordsAreOptional(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Tell(t, s, storetest.Chat, storetest.User("the quick brown fox"), storetest.User("a quick brown dog sleeps"), storetest.User("brown is quick, and sleeps"))
	storetest.Chores(t, s)
	want := []string{"a [quick brown] dog [sleeps]", "the [quick brown] fox"}
	if got := snippets(mustSearch(t, s, Query{Key: storetest.Chat, Words: `who sleeps beside our "quick brown" fence`})); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Hits with all words come before those with some, short texts before long ones, new ones before old ones.
func TestBestHitComesFirst(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	day := func(n int) time.Time { return time.UnixMilli(0).AddDate(0, 0, n) }
	storetest.Tell(t, s, storetest.Chat,
		conversation.Message{Role: conversation.RoleUser, Content: "the staging password is " + strings.Repeat("blah ", 300), At: day(1)},
		conversation.Message{Role: conversation.RoleAssistant, Content: "the staging password is hunter2", At: day(2)},
		conversation.Message{Role: conversation.RoleUser, Content: "old: which port?", At: day(1)},
		conversation.Message{Role: conversation.RoleAssistant, Content: "new: which port?", At: day(300)},
		conversation.Message{Role: conversation.RoleUser, Content: "only staging here", At: day(300)})
	storetest.Chores(t, s)
	for query, want := range map[string]string{
		"staging password":          "the [staging] [password] is hunter2",
		"port":                      "new: which [port]?",
		"what password has staging": "the [staging] [password] is hunter2", // no message has all of these
	} {
		if got := snippets(mustSearch(t, s, Query{Key: storetest.Chat, Words: query})); len(got) == 0 || got[0] != want {
			t.Errorf("%s: %q, want %q first", query, got, want)
		}
	}
}

// Pages of a search neither repeat nor leave out a hit, even if more messages match than are ranked at once.
func TestEveryHitIsOnOnePage(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	var messages []conversation.Message
	for i := range 200 + 30 {
		messages = append(messages, storetest.User(fmt.Sprintf("apple number %d", i)))
	}
	storetest.Tell(t, s, storetest.Chat, messages...)
	storetest.Chores(t, s)
	seen := map[int64]bool{}
	for skip := 0; ; skip += 7 {
		page := mustSearch(t, s, Query{Key: storetest.Chat, Words: "apple", Skip: skip, Limit: 7})
		for _, h := range page {
			if seen[h.Seq] {
				t.Fatalf("message %d is on two pages", h.Seq)
			}
			seen[h.Seq] = true
		}
		if len(page) < 7 {
			break
		}
	}
	if len(seen) != len(messages) {
		t.Errorf("%d of %d messages were found", len(seen), len(messages))
	}
	if all := mustSearch(t, s, Query{Key: storetest.Chat, Words: "apple", Limit: math.MaxInt}); len(all) != len(messages) {
		t.Errorf("without a limit, %d of %d messages were found", len(all), len(messages))
	}
}

// No query finds messages of another session; the operator's search finds those of all sessions.
func TestSearchStaysInItsSession(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	key := func(i int) conversation.Key { return conversation.Key(fmt.Sprintf("telegram:chat:%d", i)) }
	for i := range 30 {
		storetest.Tell(t, s, key(i), storetest.User(fmt.Sprintf("my secret word is mango%d", i)), storetest.Assistant("I keep the secret"))
	}
	storetest.Chores(t, s)
	for i := range 30 {
		for _, words := range []string{"secret", "mango", "mango7", `"secret word"`, "s1 c1", "secret OR mango7", "mango*", "place : s2", "mang"} {
			for _, h := range mustSearch(t, s, Query{Key: key(i), Words: words, Limit: 100}) {
				if text := h.Snippet.Mark("", ""); h.Key != key(i) || strings.Contains(text, "mango") && !strings.HasSuffix(text, fmt.Sprintf("mango%d", i)) {
					t.Errorf("%s asked for %q and found %q of %s", key(i), words, text, h.Key)
				}
			}
		}
	}
	other := mustSearch(t, s, Query{Key: key(3), Words: "secret"})[0].Conversation
	if _, err := New(s).Find(t.Context(), Query{Key: key(4), Conversation: other, Words: "secret", Limit: 1}); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("another session's conversation: %v", err)
	}
	if got := mustSearch(t, s, Query{Words: "secret", Limit: 100}); len(got) != 60 {
		t.Errorf("the operator found %d of 60", len(got))
	}
	if got := mustSearch(t, s, Query{Key: "telegram:chat:99", Words: "secret"}); len(got) != 0 {
		t.Errorf("a session without messages found %q", snippets(got))
	}
}

// Replaced answers, internal messages and deleted conversations are not found in a chat;
// the operator finds what the archive still has.
func TestReplacedAndDeletedMessagesAreNotFound(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Tell(t, s, storetest.Chat, storetest.User("which pear?"), storetest.Assistant("the pear that was replaced"), storetest.Assistant("the pear of the note"),
		storetest.Assistant("the pear that was taken back"), conversation.Message{Role: conversation.RoleTool, ToolName: "shop", ToolCallID: "1", Content: "pear 2.50"}, storetest.Assistant("this pear"))
	for seq, change := range map[int]string{2: "state = 'replaced'", 3: "internal = 1", 4: "state = 'undone'"} {
		storetest.Exec(t, s, `UPDATE messages SET `+change+` WHERE seq = ?`, seq)
	}
	storetest.Chores(t, s)
	for _, c := range []struct {
		query Query
		want  int
	}{
		{Query{Key: storetest.Chat, Words: "pear"}, 3},
		{Query{Key: storetest.Chat, Words: "pear", WithoutTools: true}, 2},
		{Query{Words: "pear"}, 6},
	} {
		if got := snippets(mustSearch(t, s, c.query)); len(got) != c.want {
			t.Errorf("%+v: %q, want %d", c.query, got, c.want)
		}
	}
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 9, "/clear yes"))
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	storetest.Commit(t, s, conversation.Run{
		Key: storetest.Chat, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: turn.Waiting,
		Conversation: turn.Conversation, Effect: conversation.Effect{Delete: true},
	})
	for _, key := range []conversation.Key{storetest.Chat, ""} {
		if got := snippets(mustSearch(t, s, Query{Key: key, Words: "pear"})); len(got) != 0 {
			t.Errorf("deleted, and %q still finds %q", key, got)
		}
	}
}

// A chat and the model find only the chosen version of an edited message. The operator finds all versions.
func TestOnlyTheChosenVersionIsFound(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Tell(t, s, storetest.Chat, storetest.User("which quince?"), storetest.Assistant("the first quince"))
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 9, "which medlar?"))
	edited := storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "the other medlar")
	edited.Effect.Undo = 1
	c := storetest.Commit(t, s, edited).Conversation
	storetest.Chores(t, s)
	expect := func(chosen, aside string) {
		t.Helper()
		for word, want := range map[string]int{chosen: 2, aside: 0} {
			if got := snippets(mustSearch(t, s, Query{Key: storetest.Chat, Words: word})); len(got) != want {
				t.Errorf("in the chat, %s finds %q", word, got)
			}
			if list, _, err := New(s).Conversations(t.Context(), ConversationQuery{Words: word, Limit: 9}); err != nil || len(list) != want/2 {
				t.Errorf("in the list of chats, %s finds %+v, %v", word, list, err)
			}
			if got := snippets(mustSearch(t, s, Query{Words: word})); len(got) != 2 {
				t.Errorf("the operator finds %q for %s", got, word)
			}
		}
		found, err := New(s).Turns(t.Context(), storetest.Chat, c.ID, 1, 9)
		if err != nil || len(found) != 1 || !strings.Contains(found[0].Messages[0].Content, chosen) {
			t.Errorf("the turns of the conversation are %+v, %v", found, err)
		}
	}
	expect("medlar", "quince")
	if err := branches.New(s).Choose(t.Context(), c, 1); err != nil {
		t.Fatal(err)
	}
	expect("quince", "medlar")
}

// Whatever is typed after /search is only text.
func TestHostileQueriesAreOnlyText(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Tell(t, s, storetest.Chat, storetest.User(`a "quoted" text AND 100% of NEAR(it) -- \ * ^ { } : words : x'y' 👍🏽`))
	storetest.Chores(t, s)
	for _, query := range []string{
		"", " ", `"`, `""`, `"""`, "AND", "NOT", "NEAR(a b, 2)", "a NEAR b", "-text", "text*", "*", "^text", "words:text", "{words}:text",
		"(", ")", "';--", "\x00", "text\x00", "\xff\xfe", "👍🏽", "\u200d", "\u0301", "+", "a AND OR b", strings.Repeat("word ", 2000),
		strings.Repeat("x", 10<<10), strings.Repeat("字", 10<<10), strings.Repeat(`"`, 10<<10), strings.Repeat("aB", 5<<10), "½ ﬃ ℌ ①",
	} {
		mustSearch(t, s, Query{Key: storetest.Chat, Words: query})
	}
	for _, query := range []string{`"quoted"`, "AND", "near it", "-text", "100%", "x'y'", "{words} :"} {
		if got := mustSearch(t, s, Query{Key: storetest.Chat, Words: query}); len(got) != 1 {
			t.Errorf("%q found %q", query, snippets(got))
		}
	}
}

func FuzzSearch(f *testing.F) {
	s, err := conversation.Open(context.Background(), conversation.Config{Path: f.TempDir() + "/fuzz.db"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	storetest.Tell(f, s, storetest.Chat, storetest.User("parseConfig is 数据库 and café"))
	storetest.Chores(f, s)
	for _, seed := range []string{`"a b`, "parse*", "数据", "a\u0301\u0301", "NEAR(x y)", "Aa1bB2"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) { mustSearch(t, s, Query{Key: storetest.Chat, Words: query}) })
}

// Every word of a text finds it, at any position, since queries are tokenized like texts.
func TestEveryWordOfATextFindsIt(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	random := rand.New(rand.NewPCG(3, 4))
	letters := []rune("abzAZ09éßЯяاहिन्दी東京のカーﾊﾞ한국ไทย_-.' \n👍🏽ﬁ²")
	var list []string
	for range 200 {
		var b strings.Builder
		for range 1 + random.IntN(40) {
			b.WriteRune(letters[random.IntN(len(letters))])
		}
		list = append(list, b.String())
	}
	for i, text := range list {
		storetest.Tell(t, s, conversation.Key(fmt.Sprintf("cli:%d", i)), storetest.User(text))
	}
	storetest.Chores(t, s)
	for i, text := range list {
		for _, word := range strings.Fields(text) {
			if words, _ := fulltext.Tokenize(word); len(words) == 0 {
				continue
			}
			if got := mustSearch(t, s, Query{Key: conversation.Key(fmt.Sprintf("cli:%d", i)), Words: word}); len(got) != 1 || !strings.Contains(got[0].Snippet.Mark("[", "]"), "[") {
				t.Errorf("%q is not found in %q: %q", word, text, snippets(got))
			}
		}
	}
}

func TestSnippetShowsThePlaceInALongText(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Tell(t, s, storetest.Chat, storetest.User(strings.Repeat("filler ünd mehr ", 5000)+"the needle is here "+strings.Repeat("filler ", 5000)))
	storetest.Chores(t, s)
	got := snippets(mustSearch(t, s, Query{Key: storetest.Chat, Words: "needle"}))
	if len(got) != 1 || !strings.Contains(got[0], "the [needle] is here") || len(got[0]) > 240+100 {
		t.Errorf("%q", got)
	}
}

// Snippets of answers are plain text without Markdown, except the address of a link that matches. Snippets of
// people's messages are as they were written.
func TestSnippetsOfAnswersHaveNoMarkdown(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for asked, answer := range map[string]string{
		"why **feta**?":  "**Feta** is a `cheese` of [Greece](https://a.example/halloumi):\n```sh\ncut feta\n```\n- \\(a^2\\)",
		"and elsewhere?": "Nowhere.",
	} {
		storetest.Tell(t, s, storetest.Chat, storetest.User(asked), conversation.Message{Role: conversation.RoleAssistant, Content: answer})
	}
	storetest.Chores(t, s)
	for words, want := range map[string][]string{
		"feta":     {"why **[feta]**?", `[Feta] is a cheese of Greece: cut [feta] \(a^2\)`},
		"halloumi": {"**Feta** is a `cheese` of [Greece](https://a.example/[halloumi]): ```sh cut feta ``` - \\(a^2\\)"},
	} {
		got := snippets(mustSearch(t, s, Query{Key: storetest.Chat, Words: words}))
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", words, diff)
		}
	}
}

// The number of a turn is the same, whether it is counted from the beginning or from stored counts.
func TestHitsNameTheirTurn(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	for i := range 150 {
		storetest.Tell(t, s, storetest.Chat, storetest.User(fmt.Sprintf("unique%d", i)), storetest.User("and more"), storetest.Assistant("yes"))
	}
	storetest.Chores(t, s)
	for _, i := range []int{0, 1, 20, 21, 22, 63, 64, 149} {
		hit := mustSearch(t, s, Query{Key: storetest.Chat, Words: fmt.Sprintf("unique%d", i)})[0]
		if hit.Turn != int64(i+1) {
			t.Errorf("turn %d is told as turn %d", i+1, hit.Turn)
		}
	}
}

// A message can be found a moment after it was stored.
func TestNewMessagesAreFound(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "my cat is called Mochi"))
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "a fine name"))
	hits, err := New(s).Find(t.Context(), Query{Key: storetest.Chat, Words: "mochi", Limit: 5})
	if err != nil || len(hits) != 1 {
		t.Fatalf("%d hits, %v", len(hits), err)
	}
}

// The arguments of tool calls are found by the model and the operator, and shown without JSON. A person's
// /search looks in messages only.
// A model has put a NUL character into the arguments of a call: what was said around it is found all the same, on PostgreSQL
// too, which takes no such text.
func TestMessagesBesideACallWithNULAreFound(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Tell(t, s, storetest.Chat, storetest.User("how is the weather"),
		conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "1", Name: "look_up", Arguments: "{\"at\": \"the weather\x00house\"}"}}},
		conversation.Message{Role: conversation.RoleTool, ToolName: "look_up", ToolCallID: "1", Content: "sunny"},
		storetest.Assistant("sunny"))
	storetest.Chores(t, s)
	if got := mustSearch(t, s, Query{Key: storetest.Chat, Words: "weather", ExceptTool: "recall"}); len(got) != 2 {
		t.Errorf("%d messages are found: %v", len(got), got)
	}
}

func TestToolCallsAreFoundByTheirArguments(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	call := func(name, arguments string) conversation.Message {
		return conversation.Message{Role: conversation.RoleAssistant, ToolCalls: []conversation.ToolCall{{ID: "1", Name: name, Arguments: arguments}}}
	}
	storetest.Tell(t, s, storetest.Chat, storetest.User("put that down"),
		call("write_file", `{"path": "notes/Einkauf.md", "content": "Milch\nK\u00e4se", "mode": 420, "append": null}`),
		conversation.Message{Role: conversation.RoleTool, ToolName: "write_file", ToolCallID: "1", Content: "written"},
		call("look_up", `no JSON but pears`), conversation.Message{Role: conversation.RoleTool, ToolName: "look_up", ToolCallID: "1", Content: "nothing"},
		storetest.Assistant("it is written down"))
	storetest.Chores(t, s)
	for words, want := range map[string]string{
		"einkauf.md":  "calls write_file: path notes/[Einkauf.md] content Milch Käse mode 420 append",
		"käse milch":  "calls write_file: path notes/Einkauf.md content [Milch] [Käse] mode 420 append",
		"pears":       "calls look_up: no JSON but [pears]",
		"write_file:": "calls [write_file]: path notes/Einkauf.md content Milch Käse mode 420 append",
	} {
		for _, key := range []conversation.Key{storetest.Chat, ""} {
			if got := snippets(mustSearch(t, s, Query{Key: key, Words: words})); len(got) != 1 || got[0] != want {
				t.Errorf("%q in %q: %q, want %q", words, key, got, want)
			}
		}
		if got := snippets(mustSearch(t, s, Query{Key: storetest.Chat, Words: words, WithoutTools: true})); len(got) != 0 {
			t.Errorf("%q in the talk alone: %q", words, got)
		}
	}
}

// Messages are found however old they are, in sessions with one or many conversations. Of a text that was
// repeated often, the newest messages are found.
func TestOldMessagesOfLongSessionsAreFound(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	const one, many, other = conversation.Key("telegram:chat:1"), conversation.Key("telegram:chat:2"), conversation.Key("telegram:chat:3")
	said := func(i int) conversation.Message {
		text := fmt.Sprintf("each says unique%d", i)
		if i%700 == 3 {
			text += " the seldom said phrase 很少说的话"
		}
		return storetest.User(text)
	}
	const all = 6 * firstSpan
	for from := 0; from < all; from += all / 6 {
		for _, key := range []conversation.Key{one, many, other} {
			var list []conversation.Message
			for i := range all / 6 {
				list = append(list, said(from+i))
			}
			storetest.Tell(t, s, key, list...)
		}
		storetest.Accept(t, s, storetest.Say(many, from, "/new"))
		storetest.Commit(t, s, conversation.Run{Key: many, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: storetest.Begin(t, s, many, 0).Waiting, Effect: conversation.Effect{Archive: true}})
	}
	storetest.Chores(t, s)
	for _, key := range []conversation.Key{one, many} {
		for _, i := range []int{0, 3, 17, all/6 - 1, all / 6, all / 2, all - 1} {
			for _, words := range []string{fmt.Sprintf("unique%d", i), fmt.Sprintf("unique%d says each", i), fmt.Sprintf(`"says unique%d"`, i)} {
				for _, talk := range []bool{false, true} {
					got := mustSearch(t, s, Query{Key: key, Words: words, WithoutTools: talk})
					if len(got) != 1 || got[0].Key != key {
						t.Errorf("%s: %s of %d messages, talk only %t: %q", key, words, all, talk, snippets(got))
					}
				}
			}
		}
		for _, words := range []string{"seldom", "says seldom", `"the seldom said phrase"`, "很少说的话"} {
			if got := mustSearch(t, s, Query{Key: key, Words: words, Limit: 100}); len(got) != 9 {
				t.Errorf("%s: %s is said 9 times, found %d times", key, words, len(got))
			}
		}
		newest := mustSearch(t, s, Query{Key: key, Words: "each says", Limit: 100})
		for _, h := range newest {
			var i int
			if _, err := fmt.Sscanf(h.Snippet.Mark("", ""), "each says unique%d", &i); err != nil || i < all-100 {
				t.Fatalf("%s: message %d of %d is among the newest hundred (%v)", key, i, all, err)
			}
		}
	}
}

// The best match is found however old it is, and however many newer messages share words with it.
func TestTheOldestMessageIsFoundAmongManyNewerOnes(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Tell(t, s, storetest.Chat, storetest.User("Anna repaired the old bicycle in Lisbon"), storetest.Assistant("well done"))
	for range 20 {
		var newer []conversation.Message
		for i := range 50 {
			newer = append(newer, storetest.User(fmt.Sprintf("Anna was in Lisbon on day %d, and the old town is nice", i)))
		}
		storetest.Tell(t, s, storetest.Chat, newer...)
	}
	storetest.Chores(t, s)
	got := snippets(mustSearch(t, s, Query{Key: storetest.Chat, Words: "when was Anna repairing bicycles in Lisbon?"}))
	if want := "[Anna] [repaired] the old [bicycle] [in] [Lisbon]"; len(got) == 0 || got[0] != want {
		t.Errorf("%q, want %q first", got, want)
	}
}

// A message beside one that matches ranks before the same words elsewhere.
func TestNeighboursOfAHitRaiseItsRank(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Tell(t, s, storetest.Chat, storetest.User("Where did we park the car?"), storetest.Assistant("At level seven, as far as I know."))
	storetest.Tell(t, s, storetest.Chat, storetest.User("Which book?"), storetest.Assistant("At level seven, as far as I know."))
	storetest.Chores(t, s)
	hits := mustSearch(t, s, Query{Key: storetest.Chat, Words: "park car level unknown"})
	if len(hits) != 3 || hits[0].Seq > 2 || hits[1].Seq > 2 {
		t.Errorf("%q", snippets(hits))
	}
}

// While the ranks of an earlier version's database are computed, messages are found by their words.
func TestSearchWorksWhileRanksAreComputed(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	s := storetest.New(t)
	s.DB().StopChores()
	for i := range 30 {
		storetest.Tell(t, s, storetest.Chat, storetest.User(fmt.Sprintf("The bicycles have number%d", i)))
	}
	storetest.Chores(t, s)
	storetest.Exec(t, s, `DELETE FROM messages_ranks WHERE rowid & 0xFFFFFF > 10`)
	storetest.Exec(t, s, `UPDATE cursors SET value = 10 WHERE name = 'messages_ranks'`)
	count := func(words string) int {
		conn, err := s.DB().Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		l := New(s).newLookup(conn, Query{Key: storetest.Chat, Words: words, Limit: 100})
		hits, err := l.run(t.Context(), fulltext.ParseQuery(words))
		if err != nil {
			t.Fatal(err)
		}
		return len(hits)
	}
	for words, want := range map[string]int{"bicycles": 30, "bicycle": 10, "number25": 1, "number25 bicycles": 1} {
		if got := count(words); got != want {
			t.Errorf("%s: %d hits before, want %d", words, got, want)
		}
	}
	storetest.Chores(t, s)
	if got := count("bicycle"); got != 30 {
		t.Errorf("%d hits afterwards, want 30", got)
	}
}

// Very common words are searched in the newest messages only if the query has no rarer word. Beside a rarer one, they cost
// nothing.
func TestWorkForVeryCommonWordsIsBounded(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("stores many messages")
	}
	s := storetest.New(t)
	for from := 0; from < maxPostings+2000; from += 200 {
		var list []conversation.Message
		for i := range 200 {
			text := "very common words"
			if from == 0 && i == 7 {
				text = "very rare words"
			}
			list = append(list, storetest.Assistant(text))
		}
		if _, err := s.Append(t.Context(), storetest.Chat, "", list...); err != nil {
			t.Fatal(err)
		}
	}
	storetest.Chores(t, s)
	for _, key := range []conversation.Key{storetest.Chat, ""} {
		newest := mustSearch(t, s, Query{Key: key, Words: "common words"})
		if len(newest) != 10 || newest[0].Seq != maxPostings+2000 || newest[9].Seq != maxPostings+2000-9 {
			t.Errorf("in %q: %+v", key, newest)
		}
		if rare := mustSearch(t, s, Query{Key: key, Words: "rare words"}); len(rare) != 1 || rare[0].Seq != 8 {
			t.Errorf("in %q: %+v", key, rare)
		}
	}
}
