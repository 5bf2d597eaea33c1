package delivery_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"parley/channels/telegram/telegramtest"
	"parley/conversation"
	"parley/conversation/transcript"
)

// export commits a turn and then a reply with its transcript.
func (p *outboxHarness) export(fakeChat int64, said, text string) conversation.Transcript {
	p.t.Helper()
	p.server.AddChat(telegramtest.Private(telegramtest.User{ID: fakeChat, FirstName: "Ada"}))
	run := func(messages []conversation.Message, replies ...conversation.Delivery) conversation.Committed {
		p.source++
		in := conversation.Inbound{Key: chatKey(fakeChat), SourceID: fmt.Sprint(p.source), Address: fmt.Sprintf(`{"chat":%d}`, fakeChat), Text: "?", At: time.Now()}
		if _, err := p.store.Accept(p.t.Context(), nil, in); err != nil {
			p.t.Fatal(err)
		}
		turn, err := p.store.Begin(p.t.Context(), in.Key, 100)
		if err != nil {
			p.t.Fatal(err)
		}
		for i := range replies {
			replies[i].Address = in.Address
		}
		done, err := p.store.Commit(p.t.Context(), conversation.Run{
			Key: in.Key, Kind: conversation.KindAgent, Status: conversation.StatusDone, Took: turn.Waiting[:1],
			Conversation: turn.Conversation, Messages: messages, Replies: replies,
		})
		if err != nil {
			p.t.Fatal(err)
		}
		return done
	}
	talk := run([]conversation.Message{
		{Role: conversation.RoleUser, Content: said, Tokens: 5},
		{Role: conversation.RoleAssistant, Content: "an answer", Tokens: 5},
	})
	transcript := conversation.Transcript{Name: "talk.md", Conversation: talk.Conversation.ID, Format: string(transcript.Markdown), From: 1, Through: 2}
	run(nil, conversation.Delivery{Key: chatKey(fakeChat), Text: text, Transcript: &transcript})
	return transcript
}

// The file is sent with the text, once, even if the chat had to wait.
func TestTranscriptIsSentAsAFile(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.export(1, "what about the *mill*?", "Here it **is**")
	p.server.Refuse(1, telegramtest.TooMany(1), 1)
	p.start()
	p.waitNothingDue()
	sent := p.server.Sent()
	if len(sent) != 1 || sent[0].Text != "Here it is" || sent[0].Document == nil {
		t.Fatalf("sent %+v", sent)
	}
	if file := sent[0].Document; file.Name != "talk.md" || !strings.Contains(file.Data, "what about the *mill*?") || !strings.Contains(file.Data, "an answer") {
		t.Fatalf("file %+v", file)
	}
}

// A text that is too long for Telegram to show below a file is a message of its own.
func TestTranscriptFollowsALongText(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.export(1, "?", strings.Repeat("word ", 300))
	p.start()
	sent := p.waitSent(2)
	if sent[0].Document != nil || sent[1].Document == nil || sent[1].Text != "" {
		t.Fatalf("sent %+v", sent)
	}
}

// The file of a conversation that was deleted meanwhile is not sent, and delays nothing.
func TestTranscriptOfADeletedConversationIsNotSent(t *testing.T) {
	t.Parallel()
	p := newOutboxHarness(t)
	p.export(1, "a secret", "Here it is")
	in := conversation.Inbound{Key: chatKey(1), SourceID: "clear", Address: `{"chat":1}`, Text: "/clear yes", At: time.Now()}
	if _, err := p.store.Accept(t.Context(), nil, in); err != nil {
		t.Fatal(err)
	}
	turn, err := p.store.Begin(t.Context(), in.Key, 100)
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.store.Commit(t.Context(), conversation.Run{
		Key: in.Key, Kind: conversation.KindCommand, Status: conversation.StatusDone, Took: turn.Waiting, Conversation: turn.Conversation,
		Effect: conversation.Effect{Delete: true}, Replies: []conversation.Delivery{{Key: in.Key, Address: in.Address, Text: "Deleted."}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.start()
	p.waitNothingDue()
	if sent := p.server.Sent(); len(sent) != 1 || sent[0].Text != "Deleted." || sent[0].Document != nil {
		t.Fatalf("sent %+v", sent)
	}
}
