package delivery_test

import (
	"strings"
	"testing"

	"parley/channels/telegram/telegramtest"
)

// The person who asked is told of a reply whose text the platform refuses, and the next one follows.
func TestChatIsToldOfARefusedReply(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.reply(1, "refused")
	p.reply(1, "next")
	p.server.Refuse(1, telegramtest.Verdict{Code: 400, Description: "the text is not understood"}, 1)
	p.start()
	p.expect("⚠️ A reply could not be sent to this chat. The details are in the gateway's log.", "next")
	if list := p.failed(); len(list) != 1 || !strings.Contains(list[0], "the text is not understood") {
		t.Errorf("failed: %q", list)
	}
}

// A chat that takes nothing is not told of it: the bot was blocked or removed.
func TestChatThatIsClosedIsToldNothing(t *testing.T) {
	t.Parallel()
	for name, verdict := range map[string]telegramtest.Verdict{
		"blocked": {Code: 403, Description: "bot was blocked by the user"},
		"gone":    {Code: 400, Description: "chat not found"},
		"closed":  {Code: 400, Description: "TOPIC_CLOSED"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newOutboxHarness(t)
			p.reply(1, "refused")
			p.server.Refuse(1, verdict, 1)
			p.start()
			p.expect()
		})
	}
}

// Where the bot may not send files, a reply that is too long for a few messages comes as many.
func TestLongReplyComesAsMessagesWhereFilesAreRefused(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.reply(1, paragraphs(15))
	p.server.Fail("sendDocument", telegramtest.Verdict{Code: 400, Description: "not enough rights to send documents to the chat"}, 1)
	p.start()
	p.waitNothingDue()
	sent := p.server.Sent()
	if len(sent) != 15 || !strings.HasPrefix(sent[0].Text, "0 long") || !strings.HasPrefix(sent[14].Text, "14 long") {
		t.Fatalf("%d messages: %.100q", len(sent), described(sent))
	}
	if list := p.failed(); len(list) != 0 {
		t.Errorf("failed: %q", list)
	}
}

// In place of an export that the chat refuses, a text says so.
func TestChatIsToldOfARefusedTranscript(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.export(1, "what about the mill?", "Here it is")
	p.commit(1, "next")
	p.server.Fail("sendDocument", telegramtest.Verdict{Code: 413, Description: "Request Entity Too Large"}, 1)
	p.start()
	p.waitNothingDue()
	sent := p.server.Sent()
	if len(sent) != 2 || !strings.HasPrefix(sent[0].Text, "⚠️ The file talk.md (") || !strings.HasSuffix(sent[0].Text, " can't be sent here.") || sent[1].Text != "next" {
		t.Errorf("sent %q", described(sent))
	}
}
