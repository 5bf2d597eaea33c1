package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"time"

	"parley/conversation"
	"parley/conversation/metadata"
	"parley/conversation/state"
)

// scene is a stretch of one session.
type scene struct {
	key          conversation.Key
	address      string // "" = the replies are kept for whoever asks
	place        string
	group        bool
	metadata     metadata.Object // metadata of the session
	phase        metadata.Object // metadata of the conversation
	instructions string          // instructions that a program has given
	title        string
	at           time.Time
	turns        []turn
	summary      string // summary of the first turn
}

type turn struct {
	after    time.Duration // time since the turn before
	sender   conversation.Sender
	text     string
	aside    bool // not said to the assistant, which does not answer
	files    []file
	metadata metadata.Object // metadata of the message and its answer
	tool     *toolUse
	events   []state.Event
	reply    string
	begin    string // the text is /new, with this title
}

type file struct {
	name, mediaType string
	data            []byte
}

type toolUse struct {
	call   conversation.ToolCall
	result string
}

func scenes() []scene {
	mira := conversation.Sender{ID: "5550101", Name: "Mira"}
	jonas := conversation.Sender{ID: "5550102", Name: "Jonas"}
	noor := conversation.Sender{ID: "5550103", Name: "Noor"}
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
			key: "telegram:chat:-1005550199", address: `{"chat":-1005550199,"reply_to":311}`, place: "Sunday lunch", group: true, title: "Sunday lunch", at: at("2026-04-11 11:05"),
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
			key: "telegram:chat:-1005550200:topic:7", address: `{"chat":-1005550200,"topic":7}`, place: "Allotment › Water", group: true,
			title: "A tank for the allotment", at: at("2026-04-14 18:02"),
			turns: []turn{
				{sender: mira, aside: true, text: "the tap at plot 12 drips again, I closed the main valve"},
				{after: time.Minute, sender: jonas, aside: true, text: "thanks. then nobody has water until Thursday"},
				{after: 2 * time.Minute, sender: jonas, text: "how big a tank do we need to get through until then?",
					events: []state.Event{{Kind: state.Decided, Text: "buy a used 1,000 litre container instead of barrels"}},
					reply:  "The main valve is closed until Thursday, so count three dry days: about 12 litres a day for each of 24 plots, 860 litres in all. A used 1,000 litre container holds that with some to spare."},
			},
		},
		{
			key: "discord:thread:1355550301", address: `{"channel":"1355550301","source":"1355550310"}`, place: "Bike club › #workshop › Bike shed", group: true,
			title: "Bike shed", at: at("2026-04-16 20:15"),
			summary: "Noor wants to build a shed for twelve bikes on the north wall and has sent a sketch of the floor. It must stay below 2.50 m.",
			turns: []turn{
				{sender: noor, text: "This is the floor of the shed, 6 m by 2 m against the north wall. It must stay below 2.50 m. Do twelve bikes fit?",
					files:  []file{{"floor.png", "image/png", floorPlan()}},
					events: []state.Event{{Kind: state.Constrained, Text: "must stay below 2.50 m"}},
					reply:  "Twelve fit if they stand alternately, front wheel high and low, 45 cm apart: 12 × 0.45 m = 5.40 m. That leaves 60 cm for the door."},
				{after: 8 * time.Minute, sender: jonas, text: "here is the list of what we have. what is missing?",
					files:  []file{{"material.csv", "text/csv", []byte("part,length,pieces\nbeam,3.0 m,8\nboard,2.4 m,40\nroof sheet,2.0 m,3\n")}},
					events: []state.Event{{Kind: state.Decided, Text: "roof of corrugated sheet, sloping to the wall", Message: 1}},
					reply:  "Beams and boards are enough. For a roof of 6 m you need six sheets of 1 m width; the list has three. Screws and a gutter are not on it."},
			},
		},
		{
			key: "discord:dm:5550103", address: `{"channel":"5550390","source":"5550391"}`, title: "A toast", at: at("2026-04-18 21:40"),
			turns: []turn{
				{sender: noor, text: "two sentences for a toast at Mira's birthday, please. nothing about age",
					reply: "Mira is the only person I know who plans a picnic with a table and then forgets the food, and we still all come. To Mira!"},
			},
		},
		{
			key: "web:reading", title: "Short novels", at: at("2026-04-19 22:10"),
			turns: []turn{
				{text: "Three novels under 150 pages for a train ride?",
					reply: "- *The Invention of Morel*, Adolfo Bioy Casares\n- *Train Dreams*, Denis Johnson\n- *Ways of Going Home*, Alejandro Zambra"},
			},
		},
		{
			key: "api:task-42", metadata: `{"repository":"shop","state":"open"}`, phase: `{"phase":"analysis"}`, instructions: "You work on the repository shop. Answer in one sentence.",
			title: "The login page", at: at("2026-04-21 08:30"),
			turns: []turn{
				{text: "The login page answers 500 since yesterday. Where do I look first?", metadata: `{"agent":"coder","iteration":1}`,
					tool: &toolUse{call: conversation.ToolCall{ID: "call_2", Name: "logs__search", Arguments: `{"service":"login","since":"yesterday"}`},
						result: "14 times: dial tcp 10.0.3.7:6379: connect: connection refused"},
					reply: "At the session store: nothing listens at 10.0.3.7:6379 any more."},
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

// floorPlan returns a picture of the floor of a shed.
func floorPlan() []byte {
	const scale, width, depth = 16, 6, 2 // pixels for a metre; metres
	plan := image.NewGray(image.Rect(0, 0, width*scale, depth*scale))
	for x := range width * scale {
		for y := range depth * scale {
			wall := x < 2 || y < 2 || x >= width*scale-2 || y >= depth*scale-2
			if door := x > 5*scale && y >= depth*scale-2; !wall || door {
				plan.SetGray(x, y, color.Gray{Y: 255})
			}
		}
	}
	var data bytes.Buffer
	if err := png.Encode(&data, plan); err != nil {
		panic(err) // into memory
	}
	return data.Bytes()
}

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err) // the texts are above
	}
	return t
}
