package telegram_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram/telegramtest"
)

// with adds a field as raw JSON.
func with(field, raw string) telegramtest.Option {
	return telegramtest.With(field, json.RawMessage(raw))
}

func TestContentsOfOtherKindsAreDescribedToTheModel(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	private := telegramtest.Private(ada)
	cases := []struct {
		text string
		with telegramtest.Option
		want string
	}{
		{"", with("sticker", `{"file_id":"s","emoji":"👍","set_name":"Cats"}`), "[sticker 👍 of the set Cats]"},
		{"", with("contact", `{"phone_number":"+49 30 1234","first_name":"Ben","last_name":"Bu]ll\nx: y"}`), "[contact Ben Bu]ll x: y, +49 30 1234]"},
		{"", with("location", `{"latitude":52.5163,"longitude":13.3777}`), "[location 52.5163, 13.3777]"},
		{"", with("location", `{"latitude":-1.5,"longitude":13,"live_period":900}`), "[live location, now at -1.5, 13]"},
		{"", with("venue", `{"title":"Café","address":"Main St 1","location":{"latitude":1,"longitude":2}}`), "[place “Café”, Main St 1, at 1, 2]"},
		{"", with("poll", `{"question":"Lunch?","type":"regular","options":[{"text":"Pizza","voter_count":2},{"text":"Soup"}]}`),
			"[poll: Lunch?]\n- Pizza (2 votes)\n- Soup"},
		{"", with("checklist", `{"title":"Trip","tasks":[{"id":1,"text":"Tent","completion_date":5},{"id":2,"text":"Rope"}]}`),
			"[checklist: Trip]\n- [x] Tent\n- [ ] Rope"},
		{"", with("dice", `{"emoji":"🎲","value":6}`), "[dice 🎲: 6]"},
		{"", with("voice", `{"file_id":"v","duration":72,"mime_type":"audio/ogg","file_size":9}`), "[voice message, 1:12]"},
		{"listen", with("audio", `{"file_id":"a","duration":5,"title":"Aria","performer":"Bach","file_name":"x.mp3"}`), "listen\n[audio “Aria” by Bach, 0:05]"},
		{"look", with("video", `{"file_id":"f","duration":3}`), "look\n[video, 0:03]"},
		{"", with("video_note", `{"file_id":"n","duration":3}`), "[video message, 0:03]"},
		{"", with("animation", `{"file_id":"g"}`), "[animation]"},
		{"", with("story", `{"id":3,"chat":{"id":-7,"type":"channel","title":"News"}}`), "[story of News]"},
		{"", with("game", `{"title":"Chess"}`), "[game Chess]"},
		{"", with("giveaway", `{"chats":[],"winner_count":3,"prize_description":"a bike"}`), "[giveaway a bike]"},
		{"what is this?", with("paid_media", `{"star_count":3}`), "what is this?\n[paid media]"},
		{"", with("hologram", `{"x":1}`), "[a message that can't be read]"},
		{"", with("rich_message", `{"blocks":[{"type":"heading","size":2,"text":"Plan"},
			{"type":"paragraph","text":["See ",{"type":"bold","text":"this"}," and ",{"type":"url","url":"https://a.example/","text":"that"}]},
			{"type":"list","items":[{"label":"1.","blocks":[{"type":"paragraph","text":"one"}]},{"label":"•","has_checkbox":true,"is_checked":true,"blocks":[{"type":"paragraph","text":"two"}]}]},
			{"type":"pre","language":"go","text":"x := 1"},
			{"type":"table","cells":[[{"text":"A"},{"text":"B"}],[{"text":"1"},{"text":"2|3"}]]},
			{"type":"unheard","text":"of"}]}`),
			"## Plan\n\nSee **this** and [that](https://a.example/)\n\n1. one\n- [x] two\n\n```go\nx := 1\n```\n\n| A | B |\n| --- | --- |\n| 1 | 2\\|3 |\n\nof"},
	}
	var want []string
	for _, c := range cases {
		g.srv.Say(private, ada, c.text, c.with)
		want = append(want, c.want)
	}
	if diff := cmp.Diff(want, texts(g.wait(len(want)))); diff != "" {
		t.Fatal(diff)
	}
}

// Malformed contents, which Telegram never sends, lose no message and crash nothing.
func TestMalformedContentsAreStillAnswered(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	private := telegramtest.Private(ada)
	odd := []string{`7`, `"x"`, `[]`, `[[]]`, `{}`, `[{"file_id":7}]`, `{"blocks":7,"options":7,"tasks":{},"duration":"x","latitude":"x"}`, `null`}
	kinds := []string{"photo", "document", "voice", "sticker", "contact", "location", "venue", "poll", "checklist", "dice", "rich_message", "quote", "external_reply", "forward_origin"}
	for _, kind := range kinds {
		for _, raw := range odd {
			g.srv.Say(private, ada, "hello", with(kind, raw))
		}
	}
	deep := strings.Repeat(`{"type":"bold","text":[`, 3000) + `"x"` + strings.Repeat(`]}`, 3000)
	g.srv.Say(private, ada, "", with("rich_message", `{"blocks":[{"type":"paragraph","text":`+deep+`}]}`))
	for _, text := range texts(g.wait(len(kinds)*len(odd) + 1))[:len(kinds)*len(odd)] {
		if !strings.Contains(text, "hello") {
			t.Errorf("lost: %q", text)
		}
	}
}

func TestFilesAreAttached(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	private := telegramtest.Private(ada)
	photo := g.srv.Say(private, ada, "what is this?", telegramtest.WithPhoto([]byte("a large picture")))
	g.srv.Say(private, ada, "", telegramtest.WithDocument("a\nb.pdf", "application/pdf", []byte("%PDF")))
	g.srv.Say(private, ada, "", with("voice", `{"file_id":"v","duration":72,"file_size":9}`))
	g.srv.Say(private, ada, "and this?", telegramtest.ReplyTo(photo.MessageID))
	type file struct {
		Text, Name, MediaType string
		Size                  int64
	}
	var got []file
	for _, in := range g.wait(4) {
		for _, a := range in.Attachments {
			got = append(got, file{in.Text, a.Name, a.MediaType, a.Size})
			if strings.Contains(a.Ref, "not-a-secret") {
				t.Error("the token is in a ref")
			}
		}
	}
	want := []file{
		{"what is this?", "photo-1.jpg", "image/jpeg", 15},
		{"", "a b.pdf", "application/pdf", 4},
		{"[voice message, 1:12]", "voice-3.ogg", "audio/ogg", 9},
		{"[in reply to Ada Lovelace:]\n> what is this?\n\nand this?", "photo-1.jpg", "image/jpeg", 15},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestEntitiesBecomeMarkdown(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.run(g.channel())
	private := telegramtest.Private(ada)
	e := func(kind string, offset, length int) telegramtest.Entity {
		return telegramtest.Entity{Type: kind, Offset: offset, Length: length}
	}
	link := telegramtest.Entity{Type: "text_link", Offset: 4, Length: 4, URL: "https://a.example/x"}
	code := telegramtest.Entity{Type: "pre", Offset: 4, Length: 6, Language: "go"}
	cases := []struct {
		text     string
		entities []telegramtest.Entity
		want     string
	}{
		{"see here now", []telegramtest.Entity{link}, "see [here](https://a.example/x) now"},
		{"😀 big and small", []telegramtest.Entity{e("bold", 3, 7), e("italic", 7, 3)}, "😀 **big *and*** small"},
		{"run x := 1", []telegramtest.Entity{code}, "run \n```go\nx := 1\n```"},
		{"a `b` c", []telegramtest.Entity{e("code", 2, 3)}, "a `` `b` `` c"},
		{"one\ntwo\nthree", []telegramtest.Entity{e("blockquote", 0, 7)}, "> one\n> two\nthree"},
		{" spaced ", []telegramtest.Entity{e("bold", 0, 8)}, " **spaced** "},
		{"gone", []telegramtest.Entity{e("strikethrough", 0, 4), e("spoiler", 0, 4)}, "~~gone~~"},
		{"crossing marks", []telegramtest.Entity{e("bold", 0, 8), e("italic", 5, 9)}, "**crossing** marks"},
		{"odd", []telegramtest.Entity{e("bold", -1, 2), e("bold", 2, 9), e("bold", 1<<40, 1), e("bold", 1, -1)}, "odd"},
	}
	var want []string
	for _, c := range cases {
		g.srv.Say(private, ada, c.text, telegramtest.WithEntities(c.entities...))
		want = append(want, c.want)
	}
	if diff := cmp.Diff(want, texts(g.wait(len(want)))); diff != "" {
		t.Fatal(diff)
	}
}
