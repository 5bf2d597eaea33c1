package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parley/conversation/grouptalk"
	"parley/plaintext"
)

// GroupTalkName is the name of the tool GroupTalk.
const GroupTalkName = "group_talk"

// The limits of one call.
const (
	groupTalkPage  = 30   // messages on a page
	groupTalkText  = 1000 // characters of a message
	groupTalkQuery = 200  // bytes of a query
)

// GroupTalk returns the tool by which the model looks up what the people of a group said
// to each other and not to it. It shows nothing of any other session.
func GroupTalk(talk *grouptalk.Talk) Tool {
	return Tool{
		Name:     GroupTalkName,
		ReadOnly: true,
		Description: "Look up what people in this group said to each other and not to you, in the last days: " +
			"the newest messages, or those with the words of a query.",
		Parameters: json.RawMessage(`{
			"type": "object",
			"properties": {
				"query": {"type": "string", "description": "words, or names of people"},
				"offset": {"type": "integer", "minimum": 0, "description": "leave out so many first ones, for the next page"}
			},
			"additionalProperties": false
		}`),
		Call: Text(func(ctx context.Context, arguments json.RawMessage) (string, error) {
			session, ok := SessionOf(ctx)
			if !ok {
				return "", errors.New("there is no chat whose messages could be read")
			}
			var a struct {
				Query  string `json:"query"`
				Offset int    `json:"offset"`
			}
			if err := json.Unmarshal(arguments, &a); err != nil || a.Offset < 0 {
				return "", errors.New("group_talk takes an object with query, a text, and offset, a whole number from 0 on")
			}
			query := strings.ToValidUTF8(a.Query[:min(len(a.Query), groupTalkQuery)], "")
			found, total, err := talk.Find(ctx, session.Key, query, a.Offset, groupTalkPage)
			if err != nil {
				return "", errors.New("the messages can't be read now")
			}
			return showTalk(found, total, a.Offset, strings.TrimSpace(query)), nil
		}),
	}
}

// showTalk shows a page of messages: what was found best first, else oldest first.
func showTalk(found []grouptalk.Message, total, offset int, query string) string {
	switch {
	case total == 0 && query != "":
		return "Nothing that people here said to each other has these words."
	case total == 0:
		return "Nothing is known that people here said to each other."
	case len(found) == 0:
		return fmt.Sprintf("There are only %d messages.", total)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Messages %d to %d of %d that people here said to each other, not to you", offset+1, offset+len(found), total)
	if query != "" {
		b.WriteString(", best first:\n")
	} else {
		b.WriteString(", counted from the newest, oldest first:\n")
		found = slices.Clone(found)
		slices.Reverse(found)
	}
	for _, m := range found {
		text := plaintext.ShortLine(m.Text, groupTalkText)
		fmt.Fprintf(&b, "[%s] %s: %s\n", when(m.At), m.Name, text)
	}
	if rest := total - offset - len(found); rest > 0 {
		fmt.Fprintf(&b, "%d more with offset %d.\n", rest, offset+len(found))
	}
	return b.String()
}
