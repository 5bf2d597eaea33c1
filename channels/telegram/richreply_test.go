package telegram_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
)

func withRichMessages(cfg *telegram.Config) { cfg.Rich = true }

// With rich = true, replies with tables, lists and the like are sent as rich messages.
func TestRepliesWithStructureAreRichMessages(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ reply, blocks string }{
		"heading":      {"## The *plan*", `{"type":"heading","text":["The ",{"type":"italic","text":"plan"}],"size":2}`},
		"code":         {"```go\nif a < b {\n}\n```", `{"type":"pre","text":"if a \u003c b {\n}","language":"go"}`},
		"formula":      {"Thus $a_1 < b$.", `{"type":"paragraph","text":["Thus ",{"type":"mathematical_expression","expression":"a_1 \u003c b"},"."]}`},
		"formula line": {"$$\n\\sum_i x_i\n$$", `{"type":"mathematical_expression","expression":"\\sum_i x_i"}`},
		"list":         {"- one\n- two\n  1. `in`", `{"type":"list","items":[{"blocks":[{"type":"paragraph","text":"one"}]},{"blocks":[{"type":"paragraph","text":"two"},{"type":"list","items":[{"blocks":[{"type":"paragraph","text":{"type":"code","text":"in"}}],"value":1,"type":"1"}]}]}]}`},
		"tasks":        {"- [x] done\n- [ ] open", `{"type":"list","items":[{"blocks":[{"type":"paragraph","text":"done"}],"has_checkbox":true,"is_checked":true},{"blocks":[{"type":"paragraph","text":"open"}],"has_checkbox":true}]}`},
		"table": {"| a | **b** |\n|:-:|--:|\n| 1 | |", `{"type":"table","cells":[[{"text":"a","is_header":true,"align":"center","valign":"middle"},{"text":{"type":"bold","text":"b"},"is_header":true,"align":"right","valign":"middle"}],` +
			`[{"text":"1","align":"center","valign":"middle"},{"align":"right","valign":"middle"}]],"is_bordered":true}`},
		"around": {"# H\n> said <u>so</u>\n\n---\n\n[here](https://x.org) and [there](/y)", `{"type":"heading","text":"H","size":1},{"type":"blockquote","blocks":[{"type":"paragraph","text":["said ",{"type":"underline","text":"so"}]}]},` +
			`{"type":"divider"},{"type":"paragraph","text":[{"type":"url","text":"here","url":"https://x.org"}," and there (/y)"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			g.srv.AddChat(group)
			must(t, deliver(deadline(t), g.channel(withRichMessages), `{"chat":-1001,"reply_to":1}`, tt.reply))
			sent := g.srv.Sent()
			if len(sent) != 1 {
				t.Fatalf("sent %+v", sent)
			}
			if diff := cmp.Diff(`{"blocks":[`+tt.blocks+`]}`, sent[0].Rich); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTextFromRightToLeftIsMarkedSo(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(telegramtest.Private(ada))
	must(t, deliver(deadline(t), g.channel(withRichMessages), `{"chat":42}`, "# שלום"))
	if sent := g.srv.Sent(); len(sent) != 1 || !strings.HasSuffix(sent[0].Rich, `"is_rtl":true}`) {
		t.Errorf("sent %+v", sent)
	}
}

// Replies without such structure, in several messages or beyond a limit are ordinary messages, and so
// are all replies by default.
func TestOtherRepliesAreOrdinaryMessages(t *testing.T) {
	t.Parallel()
	wide := "|" + strings.Repeat(" a |", 21) + "\n|" + strings.Repeat(" - |", 21) + "\n|" + strings.Repeat(" b |", 21)
	for name, reply := range map[string]string{
		"plain": "Hello.", "bold": "**Hello** [here](https://x.org)", "long": "# Head\n\n" + strings.Repeat("words and ", 600),
		"wide": wide, "deep": strings.Repeat("> ", 12) + "- x", "many": strings.Repeat("- x\n", 300), "empty item": "- a\n-\n- b", "empty code": "```\n```\n\ntext",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			g.srv.AddChat(telegramtest.Private(ada))
			must(t, deliver(deadline(t), g.channel(withRichMessages), `{"chat":42}`, reply))
			for _, m := range g.srv.Sent() {
				if m.Rich != "" {
					t.Errorf("sent %q", m.Rich)
				}
			}
			if n := g.srv.Calls("sendRichMessage"); n > 0 {
				t.Errorf("%d rich messages were tried", n)
			}
		})
	}
	g := newGateway(t)
	g.srv.AddChat(telegramtest.Private(ada))
	must(t, deliver(deadline(t), g.channel(), `{"chat":42}`, "# Head"))
	if sent := g.srv.Sent(); len(sent) != 1 || sent[0].Rich != "" {
		t.Errorf("sent %+v", sent)
	}
}

// A preview becomes the rich message.
func TestAPreviewBecomesARichMessage(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(telegramtest.Private(ada))
	c := g.channel(withRichMessages)
	g.run(c)
	must(t, g.srv.WaitPolling(deadline(t)))
	c.Preview("telegram:chat:42", 0, `{"chat":42}`, "# Hel")
	shown := g.waitShown(42, "Hel …")
	must(t, deliver(deadline(t), c, `{"chat":42}`, "# Hello"))
	if reply := g.waitShown(42, "Hello"); reply.ID != shown.ID || reply.Rich == "" {
		t.Errorf("the reply is %+v", reply)
	}
}

// A rich message that is refused is sent as an ordinary one, and the next one is tried again. A server
// without rich messages is tried once.
func TestARefusedRichMessageIsSentAsAnOrdinaryOne(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		verdict telegramtest.Verdict
		rich    int // of the two replies that follow
	}{
		"refused":   {telegramtest.Verdict{Code: 400, Description: "RICH_MESSAGE_INVALID"}, 2},
		"no method": {telegramtest.Verdict{Code: 404, Description: "method not found"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGateway(t)
			g.srv.AddChat(telegramtest.Private(ada))
			g.srv.Fail("sendRichMessage", tt.verdict, 1)
			c := g.channel(withRichMessages)
			for n := range 3 {
				must(t, deliver(deadline(t), c, `{"chat":42}`, fmt.Sprintf("# Head %d", n)))
			}
			sent, rich := g.srv.Sent(), 0
			for _, m := range sent {
				if m.Rich != "" {
					rich++
				}
			}
			if len(sent) != 3 || sent[0].Rich != "" || !sent[0].HTML || rich != tt.rich || g.logged("refused by Telegram") != 1 {
				t.Errorf("sent %+v\n%s", sent, g.log.String())
			}
		})
	}
}

// An older server would see no text in the rich edit of a preview, and gets an ordinary one.
func TestAnOlderServerGetsOrdinaryEdits(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.srv.AddChat(telegramtest.Private(ada))
	c := g.channel(withRichMessages)
	g.run(c)
	must(t, g.srv.WaitPolling(deadline(t)))
	c.Preview("telegram:chat:42", 0, `{"chat":42}`, "# Hel")
	shown := g.waitShown(42, "Hel …")
	g.srv.Fail("editMessageText", telegramtest.Verdict{Code: 400, Description: "message text is empty"}, 1)
	must(t, deliver(deadline(t), c, `{"chat":42}`, "# Hello"))
	if reply := g.waitShown(42, "Hello"); reply.ID != shown.ID || reply.Rich != "" {
		t.Errorf("the reply is %+v", reply)
	}
	must(t, deliver(deadline(t), c, `{"chat":42}`, "# More"))
	if n := g.srv.Calls("sendRichMessage"); n != 0 {
		t.Errorf("%d rich messages were tried", n)
	}
}
