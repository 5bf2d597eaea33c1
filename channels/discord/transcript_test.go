package discord

import (
	"testing"

	"parley/channels"
	"parley/conversation"
)

// The file that a reply brings is in the message with the reply's text.
func TestTranscriptIsSentWithTheText(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	r := g.run()
	ann := g.srv.Person("Ann")
	dm := g.srv.DM(ann)
	g.srv.Say(dm, ann, "the file, please")
	in := g.wait(1)[0]
	d := conversation.Delivery{ID: 1, Key: in.Key, Address: in.Address, Text: "Here it is.", Transcript: &conversation.Transcript{Name: "talk.md"}}
	parts := r.Split(d)
	if len(parts) != 1 || parts[0].File == nil || parts[0].File.Name != "talk.md" {
		t.Fatalf("parts: %+v", parts)
	}
	parts[0].File = &channels.File{Name: "talk.md", Data: []byte("# Talk\n")}
	if _, err := r.Send(t.Context(), d, parts[0]); err != nil {
		t.Fatal(err)
	}
	sent := g.srv.SentTo(dm)
	if len(sent) != 1 || sent[0].Content != "Here it is." || len(sent[0].Files) != 1 || string(sent[0].Files[0].Data) != "# Talk\n" {
		t.Fatalf("sent %+v", sent)
	}
}
