package importer

import (
	"encoding/json"
	"regexp"
	"strings"
)

// ChatGPT's answers hold marks for what its page shows in their place: sources, names with a card,
// groups of pictures. A mark stands between two characters of Unicode's private use area, and a
// third one separates its fields. In front of it is the space that its text needs.
var mark = regexp.MustCompile(`([ \t]?)\x{E200}([^\x{E200}\x{E201}]*)\x{E201}`)

const (
	betweenFields = "\uE202"
	strayMarks    = "\uE200\uE201\uE202\uE203\uE204\uE206" // that belong to no whole mark
)

// chatGPTReference says what stands in place of a mark.
type chatGPTReference struct {
	Mark string `json:"matched_text"`
	Text string `json:"alt"` // Markdown; "" = nothing
}

// maxShown is how many times as long as a text with marks, and what its references say, the shown text may be. A small file
// whose marks all name one long reference would fill the memory.
const maxShown = 4

// withoutMarks returns a text as ChatGPT's page shows it, with links in place of sources.
func withoutMarks(text string, references []chatGPTReference) string {
	if !strings.ContainsAny(text, strayMarks) {
		return text
	}
	shown := map[string]string{}
	room := maxShown * len(text)
	for _, r := range references {
		shown[r.Mark] = r.Text
		room += maxShown * len(r.Text)
	}
	text = mark.ReplaceAllStringFunc(text, func(found string) string {
		parts := mark.FindStringSubmatch(found)
		words := shown[strings.TrimLeft(found, " \t")]
		if words == "" || len(words) > room {
			words = wordsOfMark(strings.Split(parts[2], betweenFields))
		}
		room -= len(words)
		if words == "" {
			return ""
		}
		return parts[1] + words
	})
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(strayMarks, r) {
			return -1
		}
		return r
	}, text)
}

// wordsOfMark returns what a mark says by itself, "" for nothing. A source is named elsewhere alone.
func wordsOfMark(fields []string) string {
	switch {
	case fields[0] == "entity" && len(fields) > 1: // ["company", "name", …]
		var entity []json.RawMessage
		var name string
		if json.Unmarshal([]byte(fields[1]), &entity) == nil && len(entity) > 1 && json.Unmarshal(entity[1], &name) == nil {
			return name
		}
	case fields[0] == "url" && len(fields) > 2:
		return "[" + fields[1] + "](" + fields[2] + ")"
	}
	return ""
}
