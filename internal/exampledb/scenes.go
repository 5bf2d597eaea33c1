package main

import (
	"time"

	"parley/conversation"
)

// scene is a stretch of one session.
type scene struct {
	key     conversation.Key
	address string
	group   bool
	title   string
	at      time.Time
	turns   []turn
}

type turn struct {
	after  time.Duration // since the turn before
	sender conversation.Sender
	text   string
	tool   *toolUse
	reply  string
	begin  string // the text is /new, with this title
}

type toolUse struct {
	call   conversation.ToolCall
	result string
}

func scenes() []scene {
	mira := conversation.Sender{ID: "5550101", Name: "Mira"}
	jonas := conversation.Sender{ID: "5550102", Name: "Jonas"}
	return []scene{
		{
			key: "telegram:chat:5550101", address: `{"chat":5550101}`, title: "Three days in Lisbon", at: at("2026-03-02 19:40"),
			turns: []turn{
				{sender: mira, text: "We have three days in Lisbon in April, with a six-year-old. What would you not miss?",
					reply: "Three things that work well with a six-year-old:\n\n1. **Oceanário** in Parque das Nações: go at opening time, then take the cable car along the river.\n2. **Tram 28**, early, from Martim Moniz: before nine there are seats.\n3. **Belém**: pastéis first, then the tower from outside and the big lawn to run on.\n\nDo you stay in the centre?"},
				{after: 3 * time.Minute, sender: mira, text: "Yes, near Rossio. She gets tired after two hours of walking.",
					reply: "Then one outing in the morning and one late in the afternoon, with a long break at home in between:\n\n| Day | Morning | Late afternoon |\n| --- | --- | --- |\n| 1 | Tram 28 to Graça | Miradouro da Senhora do Monte |\n| 2 | Oceanário, cable car | Ginjinha for you, ice cream for her, at Rossio |\n| 3 | Belém | Ferry to Cacilhas and back |"},
				{after: 26 * time.Hour, sender: mira, text: "What time is it there now? I want to call the flat.",
					tool: &toolUse{call: conversation.ToolCall{ID: "call_1", Name: "current_time", Arguments: `{"timezone":"Europe/Lisbon"}`},
						result: "Tuesday, 2026-03-03 20:47:09 WET (+00:00)"},
					reply: "It is 20:47 in Lisbon, a Tuesday evening: a good time to call."},
				{after: 20 * 24 * time.Hour, sender: mira, text: "/new Packing list", begin: "Packing list",
					reply: "A new conversation begins: “Packing list”. The conversation “Three days in Lisbon”, with 8 messages, is kept: /history list."},
			},
		},
		{
			key: "telegram:chat:5550101", address: `{"chat":5550101}`, title: "Packing list", at: at("2026-03-23 20:49"),
			turns: []turn{
				{sender: mira, text: "Carry-on only, two adults and the child. What do people forget?",
					reply: "Mostly these:\n\n- a light rain jacket each: April has showers\n- the child's own water bottle, empty at security\n- a plug adapter is **not** needed (type F)\n- a copy of the child's ID on both phones"},
			},
		},
		{
			key: "telegram:chat:-1005550199", address: `{"chat":-1005550199,"reply":311}`, group: true, title: "Sunday lunch", at: at("2026-04-11 11:05"),
			turns: []turn{
				{sender: jonas, text: "we are eight on Sunday, two vegetarians. something that cooks itself?",
					reply: "A big tray of baked vegetables with feta, and a slow-roasted shoulder of lamb beside it. Both go into the oven at 11 and need nothing until 13:30."},
				{after: 2 * time.Minute, sender: mira, text: "no lamb for me please, and Ada can't have nuts",
					reply: "Noted: no lamb for Mira, no nuts for Ada. The tray has neither; leave the pesto out or make it with sunflower seeds."},
				{after: 5 * time.Hour, sender: jonas, text: "how much feta for eight?",
					reply: "About 600 g: 75 g each, crumbled over the tray for the last twenty minutes."},
			},
		},
		{
			key: "cli:default", address: "local", title: "A shell loop that survives spaces", at: at("2026-04-20 09:12"),
			turns: []turn{
				{text: "my for loop over files breaks on names with spaces",
					reply: "Let the shell hand over whole names instead of words:\n\n```sh\nfind . -name '*.jpg' -print0 |\n  while IFS= read -r -d '' file; do\n    echo \"$file\"\n  done\n```\n\n`-print0` ends each name with a NUL byte, which no name can hold."},
				{after: 90 * time.Second, text: "and without find?",
					reply: "A glob does it, as long as you quote the variable:\n\n```sh\nfor file in ./*.jpg; do\n  echo \"$file\"\ndone\n```"},
			},
		},
	}
}

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err) // the texts are above
	}
	return t
}
