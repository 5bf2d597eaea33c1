package telegram

import (
	"log/slog"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/channels/access"
)

// FuzzUpdate checks that a message accepted from any update can be stored, answered and shown, and is not many times as long as
// the update.
func FuzzUpdate(f *testing.F) {
	const private = `"message_id":5,"date":1700000000,"chat":{"id":42,"type":"private"},"from":{"id":42,"first_name":"Ada"}`
	const inGroup = `"message_id":5,"date":1700000000,"chat":{"id":-1001,"type":"supergroup","title":"Friends"},"from":{"id":42,"first_name":"Ada"}`
	for _, seed := range []string{
		`{"update_id":1,"message":{` + private + `,"text":"hi 👍🏽 bold code","entities":[{"type":"bold","offset":8,"length":4},{"type":"pre","language":"go","offset":13,"length":4},{"type":"text_link","url":"https://a.example","offset":0,"length":2}]}}`,
		`{"update_id":2,"message":{` + inGroup + `,"text":"@parley_bot /new a","entities":[{"type":"mention","offset":0,"length":11}],"is_topic_message":true,"message_thread_id":7,"reply_to_message":{"message_id":4,"chat":{"id":-1001},"from":{"id":7000001,"is_bot":true},"text":"before","forum_topic_created":{"name":"Plans"}}}}`,
		`{"update_id":3,"message":{` + private + `,"caption":"a","photo":[{"file_id":"A","width":9,"height":9},{"file_id":"B","width":90,"height":90}],"media_group_id":"1","forward_origin":{"type":"user","sender_user":{"id":3,"first_name":"Bob"}},"quote":{"text":"q","is_manual":true},"external_reply":{"origin":{"type":"hidden_user","sender_user_name":"C"},"voice":{"file_id":"V","duration":70}}}}`,
		`{"update_id":4,"edited_message":{` + inGroup + `,"edit_date":1700000009,"text":"/new@parley_bot x","via_bot":{"id":9}}}`,
		`{"update_id":5,"message":{` + private + `,"poll":{"question":"Q","type":"quiz","options":[{"text":"a","voter_count":1}]},"venue":{"title":"T","location":{"latitude":1.5}}}}`,
		`{"update_id":6,"message":{` + private + `,"rich_message":{"blocks":[{"type":"heading","size":2,"text":["a",{"type":"bold","text":"b"}]},{"type":"list","items":[{"label":"1.","blocks":[{"type":"paragraph","text":"x"}]}]},{"type":"table","cells":[[{"text":"c|"}]]},{"type":"blockquote","blocks":[{"type":"pre","text":"y"}],"credit":"z"}]}}}`,
		`{"update_id":7,"message":{` + private + `,"checklist":{"title":"L","tasks":[{"text":"a","completion_date":3}]}}}`,
		`{"update_id":8,"message":{` + inGroup + `,"ephemeral_message_id":3,"sticker":{"emoji":"👍","set_name":"S"}}}`,
		`{"update_id":-9,"message":{` + private + `,"new_thing":{"emoji":"x"},"migrate_to_chat_id":-1002}}`,
	} {
		f.Add([]byte(seed))
	}
	config := DefaultConfig()
	config.Token, config.Access, config.Context = "7000001:token", access.Open, 5
	c, err := New(Deps{Config: config, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	me := &self{id: 7000001, username: "parley_bot", commands: []string{"new"}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		u := c.decode(raw)
		if u.Callback != nil || u.Member != nil || u.Stopped != nil {
			return // which Telegram is answered
		}
		list, err := c.handle(t.Context(), me, u)
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range list {
			if in.Key.Channel() != name || in.SourceID == "" || in.Sender.Name == "" || in.Text == "" && len(in.Attachments) == 0 {
				t.Errorf("accepted: %+v", in)
			}
			if _, err := parseAddress(in.Address); err != nil {
				t.Errorf("the address %q: %v", in.Address, err)
			}
			for _, text := range []string{string(in.Key), in.SourceID, in.Sender.Name, in.Text, in.Place, in.Title} {
				if !utf8.ValidString(text) || strings.Contains(text, "\x00") {
					t.Errorf("the text %q", text)
				}
			}
			if len(in.Text) > 64*len(raw) {
				t.Errorf("%d bytes become %d", len(raw), len(in.Text))
			}
			for _, a := range in.Attachments {
				if a.Name == "" || a.MediaType == "" || a.Size < 0 || strings.ContainsAny(a.Name, "\x00\n") {
					t.Errorf("the file %+v", a)
				}
			}
		}
	})
}
