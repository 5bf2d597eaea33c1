package faulttest

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"parley/channels/discord/discordtest"
	"parley/channels/telegram/telegramtest"
	"parley/conversation/dbfile"
	"parley/gateway/gatewaytest"
	"parley/internal/postgrestest"
	"parley/llm/llmtest"
)

// oneChat is a chat on a platform that several nodes serve.
type oneChat struct {
	section string             // of the configuration
	say     func(text string)  // as the person
	shown   func() []string    // the messages of the bot
	edited  func() bool        // whether a message was edited
	check   func(t *testing.T) // fails the test if requests were malformed
}

func onTelegram(t *testing.T) oneChat {
	srv := telegramtest.New(t)
	chat := telegramtest.Private(person(1))
	return oneChat{
		section: telegram{srv, "0s"}.section(),
		say:     func(text string) { srv.Say(chat, person(1), text) },
		shown:   func() []string { return telegram{Server: srv}.sent(1) },
		edited: func() bool {
			return slices.ContainsFunc(srv.SentTo(1), func(m telegramtest.Message) bool { return m.Edits > 0 })
		},
		check: func(*testing.T) {},
	}
}

func onDiscord(t *testing.T) oneChat {
	srv := discordtest.New(t)
	who := srv.Person("Ann")
	dm := srv.DM(who)
	return oneChat{
		section: (&discord{Server: srv}).section(),
		say:     func(text string) { srv.Say(dm, who, text) },
		shown: func() (texts []string) {
			for _, m := range srv.SentTo(dm) {
				texts = append(texts, m.Content)
			}
			return texts
		},
		edited: func() bool {
			return slices.ContainsFunc(srv.SentTo(dm), func(m discordtest.Message) bool { return len(m.Versions) > 1 })
		},
		check: func(t *testing.T) {
			if v := srv.Violations(); len(v) > 0 {
				t.Errorf("Discord would refuse the request: %q", v)
			}
		},
	}
}

// The node that shows an answer while it is written is paused, or killed. The other node sends the answer. Then the first one works the
// session again: no answer is edited over by another, and no beginning of an answer is left.
func TestClusterNodeIsPausedWhileItShowsAnAnswer(t *testing.T) {
	t.Parallel()
	for name, newChat := range map[string]func(*testing.T) oneChat{"telegram": onTelegram, "discord": onDiscord} {
		for how, signal := range map[string]syscall.Signal{"paused": syscall.SIGSTOP, "killed": syscall.SIGKILL} {
			t.Run(name+" "+how, func(t *testing.T) {
				t.Parallel()
				chat, model, url := newChat(t), llmtest.New(t), postgrestest.Database(t)
				model.Quiet()
				model.Reply(func(c llmtest.Call) llmtest.Answer {
					a := answerTo(c)
					a.Text = strings.Repeat("word ", 1000)
					a.Pieces, a.ChunkDelay = 1000, nodeTTL/10
					return a
				})
				section := "[log]\nlevel = \"debug\"\n" + chat.section
				nodes := startBots(t, url, model, section, section)
				for _, n := range nodes {
					gatewaytest.Await(t, "the start of a node", func() bool { return strings.Contains(n.Log.String(), "gateway started") })
				}
				awaitServing(t, url, len(nodes))
				gatewaytest.Await(t, "a node to be connected", func() bool {
					return slices.ContainsFunc(nodes, func(n *node) bool { return strings.Contains(n.Log.String(), "bot identified") })
				})
				chat.say("m1")
				gatewaytest.Await(t, "the answer so far", chat.edited)
				first := slices.IndexFunc(nodes, func(n *node) bool { return strings.Contains(n.Log.String(), "run begun") })
				second := 1 - first
				model.Reply(answerTo)
				if signal == syscall.SIGKILL {
					nodes[first].process.Kill()
				} else {
					nodes[first].process.Signal(signal)
				}
				awaitShown(t, chat, "re m1")
				if signal == syscall.SIGKILL {
					nodes[first].start()
				} else {
					nodes[first].process.Signal(syscall.SIGCONT)
				}
				awaitServing(t, url, len(nodes))
				nodes[second].process.Stop()
				awaitServing(t, url, 1)
				chat.say("m2")
				awaitShown(t, chat, "re m1", "re m2")
				nodes[first].process.Stop()
				chat.check(t)
			})
		}
	}
}

// awaitServing waits until a number of nodes serve.
func awaitServing(t *testing.T, url string, count int) {
	t.Helper()
	gatewaytest.Await(t, "all nodes", func() bool {
		return len(rows(t, url, `SELECT name FROM nodes WHERE dead_at IS NULL AND command = 'run'`)) == count
	})
}

// awaitShown waits until a chat shows these messages and no others.
func awaitShown(t *testing.T, chat oneChat, want ...string) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the chat shows %q", chat.shown())
		}
	}()
	gatewaytest.Await(t, fmt.Sprintf("%q", want), func() bool { return slices.Equal(chat.shown(), want) })
}

// Telegram takes a reply, and the node's connection to the database is cut before the node has stored that. The node
// stores it when the database is back, however long it was gone, and does not send the reply again.
func TestClusterNodeMarksAReplyAfterAnOutageOfTheDatabase(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	proxy := postgrestest.NewProxy(t, url)
	c := newTelegramNodesAt(t, url, proxy.URL())
	taken := newGate(t)
	telegram{Server: c.srv}.onSend(nil, func(int, string) verdict {
		taken.pass()
		return answered
	})
	c.awaitOther(-1)
	c.say(1, "m1")
	<-taken.reached
	proxy.Interrupt()
	taken.Open()
	log := c.nodes[0].Log
	gatewaytest.Await(t, "the attempts to mark the reply to outlast the node's lease", func() bool {
		return strings.Contains(log.String(), "could not mark a reply as sent") && strings.Contains(log.String(), "contact with the database lost")
	})
	proxy.Resume()
	c.say(1, "m2")
	c.awaitAnswers()
	if got := (telegram{Server: c.srv}).sent(1); !slices.Equal(got, []string{"re m1", "re m2"}) {
		t.Errorf("the chat shows %q", got)
	}
	c.nodes[0].process.Stop()
}

// sharedMessages returns a query for the platform's messages that two replies of runs consist of.
func sharedMessages(onServer bool) string {
	each := `json_each(o.sent) j`
	if onServer {
		each = `json_array_elements_text(CAST(o.sent AS json)) AS j (value)`
	}
	return `
		WITH parts AS (
			SELECT o.id, o.channel, o.account, o.session_id, j.value AS part FROM outbox o CROSS JOIN ` + each + `
			UNION SELECT o.id, o.channel, o.account, o.session_id, p.part_id FROM outbox o JOIN outbox_parts p ON p.outbox_id = o.id)
		SELECT p.channel || ' ' || p.part FROM parts p JOIN outbox o ON o.id = p.id JOIN runs r ON r.id = o.run_id
		WHERE r.kind = 'agent' AND p.part <> 'unknown'
		GROUP BY p.channel, p.account, p.session_id, p.part HAVING count(DISTINCT p.id) > 1`
}

// expectOwnMessages checks a database on a server: each delivery has messages of its own on the platform.
func expectOwnMessages(t *testing.T, url string) {
	t.Helper()
	db, err := dbfile.OpenURL(url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if shared := column(t, db, sharedMessages(true)); len(shared) > 0 {
		t.Errorf("two replies are one message: %q", shared)
	}
}
