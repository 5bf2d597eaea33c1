package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// LoCoMo is a public set of long conversations between two people, with questions about them: the file
// data/locomo10.json of https://github.com/snap-research/LoCoMo. Its licence, CC BY-NC, keeps it out of this repository.

// locomoTalk is a conversation as the file has it. Its sessions are the keys session_1, session_2 and so on, each with
// its time under session_1_date_time.
type locomoTalk struct {
	ID           string                     `json:"sample_id"`
	Conversation map[string]json.RawMessage `json:"conversation"`
	Questions    []struct {
		Text     string   `json:"question"`
		Evidence []string `json:"evidence"`
		Category int      `json:"category"`
	} `json:"qa"`
}

// locomoMessage is a message as the file has it.
type locomoMessage struct {
	ID      string `json:"dia_id"`
	Speaker string `json:"speaker"`
	Text    string `json:"text"`
	Caption string `json:"blip_caption"` // what a picture shows
}

// adversarial is the category of questions that the conversation does not answer. It is usually left out.
const adversarial = 5

// locomoTime is the form of times in the file.
const locomoTime = "3:04 pm on 2 January, 2006"

// evidenceID matches the identifier of a message. Some entries of the file list several, others none.
var evidenceID = regexp.MustCompile(`D\d+:\d+`)

// readLoCoMo returns the set in the file at path.
func readLoCoMo(path string) (set, error) {
	s := set{name: "LoCoMo"}
	data, err := os.ReadFile(path)
	if err != nil {
		return s, err
	}
	var talks []locomoTalk
	if err := json.Unmarshal(data, &talks); err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	for _, t := range talks {
		read, err := t.talk()
		if err != nil {
			return s, fmt.Errorf("%s: conversation %s: %w", path, t.ID, err)
		}
		s.talks = append(s.talks, read)
	}
	return s, nil
}

func (t locomoTalk) talk() (talk, error) {
	read := talk{name: t.ID}
	var first string
	if err := t.decode("speaker_a", &first); err != nil {
		return read, err
	}
	index := map[string]int{} // of messages, by their identifiers
	for n := 1; t.Conversation[fmt.Sprintf("session_%d", n)] != nil; n++ {
		key := fmt.Sprintf("session_%d", n)
		var messages []locomoMessage
		var date string
		if err := t.decode(key, &messages); err != nil {
			return read, err
		}
		if err := t.decode(key+"_date_time", &date); err != nil {
			return read, err
		}
		at, err := time.Parse(locomoTime, date)
		if err != nil {
			return read, err
		}
		for i, m := range messages {
			index[m.ID] = len(read.messages)
			text := strings.TrimSpace(m.Speaker + ": " + m.Text + " " + m.Caption)
			read.messages = append(read.messages, message{m.Speaker == first, text, at.Add(time.Duration(i) * time.Minute)})
		}
	}
	for _, q := range t.Questions {
		asked := question{text: q.Text}
		seen := map[int]bool{}
		for _, id := range evidenceID.FindAllString(strings.Join(q.Evidence, " "), -1) {
			if at, known := index[id]; known && !seen[at] {
				seen[at] = true
				asked.evidence = append(asked.evidence, at)
			}
		}
		if q.Category != adversarial && len(asked.evidence) > 0 {
			read.questions = append(read.questions, asked)
		}
	}
	return read, nil
}

// decode reads the value of a key of the conversation.
func (t locomoTalk) decode(key string, into any) error {
	if err := json.Unmarshal(t.Conversation[key], into); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
