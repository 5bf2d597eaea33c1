package faulttest

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestKilledBetweenVersions kills the gateway while somebody switches between the versions of a
// message: afterwards one version is shown completely, with all that followed it and nothing of
// another.
func TestKilledBetweenVersions(t *testing.T) {
	t.Parallel()
	const kills = 4
	c := newWebChat(t)
	c.must(c.post("messages", url.Values{"text": {"a"}})) // 1, 2
	c.await("echo: a")
	c.must(c.post("messages", url.Values{"text": {"b"}})) // 3, 4
	c.await("echo: b")
	c.must(c.post("edit", url.Values{"seq": {"1"}, "text": {"A1"}})) // 5, 6
	c.await("echo: A1")

	texts := []string{"a", "A1"} // of the versions
	for kill := range kills {
		ended, begun := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			for n := 0; c.post("version", url.Values{"seq": {[]string{"1", "5"}[n%2]}}) == nil; n++ {
				if n == 0 {
					close(begun)
				}
			}
		}()
		select {
		case <-begun:
		case <-ended:
		}
		c.gw.Process().KillWithin(100 * time.Millisecond)
		<-ended
		c.gw.Start()
		list := c.shown()
		first, at, _ := strings.Cut(list[0], " ")
		want := []string{list[0], "echo: " + first}
		if first == "a" {
			want = append(want, "b", "echo: b")
		}
		if n := slices.Index(texts, first); n < 0 || at != fmt.Sprintf("%d/%d", n+1, len(texts)) || !slices.Equal(list, want) {
			t.Fatalf("after kill %d the chat reads %q", kill+1, list)
		}
	}
	for n, seq := range []string{"1", "5"} {
		c.must(c.post("version", url.Values{"seq": {seq}}))
		if list := c.shown(); list[0] != fmt.Sprintf("%s %d/2", texts[n], n+1) {
			t.Errorf("version %d reads %q", n+1, list)
		}
	}
	c.gw.Stop()
	c.expectWhole()
}

// TestKilledAroundAnEdit kills the gateway while it takes an edit, answers it, or stores the
// answer. The page sends the edit again until it is taken, with the same id. The newest text
// is answered once, and every earlier version is still there.
func TestKilledAroundAnEdit(t *testing.T) {
	t.Parallel()
	const kills = 5
	c := newWebChat(t)
	c.must(c.post("messages", url.Values{"text": {"hello"}}))
	c.await("echo: hello")
	c.must(c.post("messages", url.Values{"text": {"version 1"}}))
	c.await("echo: version 1")
	for kill := range kills {
		text := fmt.Sprintf("version %d", kill+2)
		edit := url.Values{"seq": {c.newestSeq()}, "text": {text}, "id": {fmt.Sprintf("edit-number-%d", kill)}}
		taken := make(chan error, 1)
		go func() { taken <- c.post("edit", edit) }()
		c.gw.Process().KillWithin(100 * time.Millisecond)
		lost := <-taken
		c.gw.Start()
		if lost != nil {
			c.must(c.post("edit", edit))
		}
		c.await("echo: " + text)
		want := []string{"hello", "echo: hello", fmt.Sprintf("%s %d/%[2]d", text, kill+2), "echo: " + text}
		if list := c.shown(); !slices.Equal(list, want) {
			t.Fatalf("after kill %d the chat reads %q, want %q", kill+1, list, want)
		}
	}
	c.gw.Stop()
	c.expectWhole()
	rows, err := c.gw.Store().DB().QueryContext(t.Context(), `SELECT content FROM messages WHERE seq > 2 ORDER BY seq`)
	c.must(err)
	defer rows.Close()
	var said, want []string
	for rows.Next() {
		said = append(said, "")
		c.must(rows.Scan(&said[len(said)-1]))
	}
	for n := range kills + 1 {
		want = append(want, fmt.Sprintf("version %d", n+1), fmt.Sprintf("echo: version %d", n+1))
	}
	if !slices.Equal(said, want) {
		t.Errorf("these are stored: %q, want %q", said, want)
	}
}

var (
	entryText    = regexp.MustCompile(`dir="auto">(?:<p>)?([^<]*)`)
	entryVersion = regexp.MustCompile(`<span>(\d+) / (\d+)</span>`)
)

// versionsShown returns what the page of a chat shows, with "2/3" behind a message that is
// one of several versions.
func versionsShown(page string) (list []string) {
	_, transcript, _ := strings.Cut(page, `id="messages"`)
	transcript, _, _ = strings.Cut(transcript, `id="live"`)
	for _, entry := range strings.Split(transcript, "<li class=")[1:] {
		text := entryText.FindStringSubmatch(entry)
		if text == nil {
			continue
		}
		said := text[1]
		if v := entryVersion.FindStringSubmatch(entry); v != nil {
			said += " " + v[1] + "/" + v[2]
		}
		list = append(list, said)
	}
	return list
}
