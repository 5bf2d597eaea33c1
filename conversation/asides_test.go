package conversation_test

import (
	"testing"

	"parley/conversation"
	"parley/conversation/storetest"
)

// Of two bots in a session, the one that was asked first is away. What the other one has answered meanwhile, and the command that ended its
// conversation, are not deleted with the conversation that the first message begins in the end.
func TestLateFirstMessageTakesNothingOfTheConversationBefore(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Say(storetest.Chat, 1, "to the bot that is away"), storetest.Say(storetest.Chat, 2, "to the other bot"),
		storetest.Say(storetest.Chat, 3, "/status"), storetest.Say(storetest.Chat, 4, "/new"))
	later := func(kind conversation.Kind) conversation.Run {
		turn := storetest.Begin(t, s, storetest.Chat, 1000)
		turn.Waiting = turn.Waiting[1:2]
		if kind == conversation.KindAgent {
			return storetest.Answered(storetest.Chat, turn, "answer of the other bot")
		}
		return storetest.Replied(turn, kind, conversation.StatusDone, "done")
	}
	before := storetest.Commit(t, s, later(conversation.KindAgent)).Conversation
	storetest.Commit(t, s, later(conversation.KindCommand))
	end := later(conversation.KindCommand)
	end.Effect.Archive = true
	storetest.Commit(t, s, end)
	const ofIt = `SELECT count(*) FROM runs r JOIN conversations c ON c.id = r.conversation_id WHERE c.uuid = ?`
	runs := storetest.Count(t, s, ofIt, before.ID)
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, storetest.Begin(t, s, storetest.Chat, 1000), "late answer"))
	if n := storetest.Count(t, s, ofIt, before.ID); n != runs || runs < 2 {
		t.Errorf("%d runs are of the conversation before, which had %d", n, runs)
	}
}

// A question is answered while the first message of a conversation waits for it. The answer belongs to that conversation.
func TestCommandBesideTheFirstMessageBelongsToItsConversation(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.Ask(storetest.Chat, 1, "pay the bill"), storetest.Ask(storetest.Chat, 2, "/approve 1"))
	turn := storetest.Begin(t, s, storetest.Chat, 1000)
	beside := turn
	beside.Waiting = turn.Waiting[1:]
	storetest.Commit(t, s, storetest.Replied(beside, conversation.KindCommand, conversation.StatusDone, "Allowed."))
	turn.Waiting = turn.Waiting[:1]
	done := storetest.Commit(t, s, storetest.Answered(storetest.Chat, turn, "paid"))
	if n := storetest.Count(t, s, `SELECT count(*) FROM runs r JOIN conversations c ON c.id = r.conversation_id WHERE c.uuid = ?`, done.Conversation.ID); n != 2 {
		t.Errorf("%d runs are of the conversation, want the one that answered and the command beside it", n)
	}
}
