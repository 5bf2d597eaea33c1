package discord

import "time"

// Of messages that other bots write in a place while no person does, maxBotRun are answered: the assistant
// may be in their list of bots, too. A pause of botPause begins a new run.
const (
	maxBotRun = 10
	botPause  = time.Hour
)

// botRun is a run of messages of other bots with no person's message among them.
type botRun struct {
	answered int
	last     string    // ID of the message that was counted last
	at       time.Time // when the newest message of the run was written
}

// endBotRun notes that a person has written in a place.
func (in *intake) endBotRun(p *place) { delete(in.botRuns, p.id) }

// answersBot counts a message of another bot that is for the assistant, and reports whether it is
// answered. Webhooks are not counted, since they read no answers.
func (in *intake) answersBot(m *message, p *place) bool {
	run := in.botRuns[p.id]
	if m.WebhookID != "" || m.ID == run.last {
		return true
	}
	at := bornAt(m.ID)
	if at.Sub(run.at) >= botPause {
		run = botRun{}
	}
	run.at = at
	defer func() { in.botRuns[p.id] = run }()
	run.answered++
	if run.answered > maxBotRun {
		if run.answered == maxBotRun+1 {
			in.Log.Warn("bots not answered until a person writes", "channel_id", p.id, "bot", m.author().ID, "answered", maxBotRun)
		}
		return false
	}
	run.last = m.ID
	return true
}
