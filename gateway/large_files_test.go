package gateway_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"parley/channels/discord/discordtest"
	"parley/channels/telegram/telegramtest"
	"parley/gateway/gatewaytest"
)

// A person who sends a file of 2 GB on Discord is told that it is too large, and nothing of it is fetched. A
// file that is larger than Discord says is fetched up to the limit.
func TestLargeFilesOnDiscordAreReported(t *testing.T) {
	t.Parallel()
	platform := discordtest.New(t)
	ann := platform.Person("Ann")
	place := platform.DM(ann)
	gatewaytest.Start(t, gatewaytest.Options{InProcess: true, Config: gatewaytest.OpenToAll + "[files]\nmax_file = 1\n" +
		fmt.Sprintf("[discord]\ntoken = %q\napi_url = %q\naccess = \"open\"\n", discordtest.Token, platform.URL)})
	if err := platform.WaitConnected(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		file  discordtest.File
		words string
		calls int
	}{
		{discordtest.File{Name: "film.mkv", Data: []byte("x"), ClaimedSize: 2 << 30}, "it has 2.0 GiB, and at most 1.0 MiB of a file are kept", 0},
		{discordtest.File{Name: "film.mkv", Data: bytes.Repeat([]byte("x"), 3<<20), ClaimedSize: 10}, "it has more than 1.0 MiB", 1},
	} {
		platform.Say(place, ann, fmt.Sprint("look ", i), discordtest.Attach(c.file))
		gatewaytest.Await(t, "the answer", func() bool {
			for _, m := range platform.Seen(place, ann) {
				if m.Author.Bot && strings.Contains(m.Content, fmt.Sprint("look ", i)) && strings.Contains(m.Content, "`film.mkv`: "+c.words) {
					return true
				}
			}
			return false
		})
		if n := platform.Calls("GET /attachments"); n != c.calls {
			t.Errorf("%s: %d downloads", c.words, n)
		}
	}
}

// Telegram gives bots no files of more than 20 MB: the chat is told so. A file of 2 GB is not even
// requested.
func TestLargeFilesOnTelegramAreReported(t *testing.T) {
	t.Parallel()
	platform := telegramtest.New(t)
	chat, ada := telegramtest.Private(telegramtest.User{ID: 42}), telegramtest.User{ID: 42, FirstName: "Ada"}
	gatewaytest.Start(t, gatewaytest.Options{InProcess: true, Config: gatewaytest.OpenToAll +
		fmt.Sprintf("[telegram]\ntoken = %q\napi_url = %q\naccess = \"open\"\nsend_rate = 0\nchat_rate = 0\nquiet = \"0s\"\n", telegramtest.Token, platform.URL)})
	for i, c := range []struct {
		size  int64
		words string
	}{
		{30 << 20, "bots get no files of more than 20 MB from Telegram"},
		{2 << 30, "it has 2.0 GiB, and at most 50.0 MiB of a file are kept"},
	} {
		id := platform.AddLargeFile("film.mkv", c.size)
		platform.Say(chat, ada, "", telegramtest.With("document", map[string]any{
			"file_id": id, "file_unique_id": id, "file_name": "film.mkv", "mime_type": "video/x-matroska", "file_size": c.size,
		}))
		gatewaytest.Await(t, "the answer", func() bool { return len(platform.SentTo(42)) == i+1 })
		if got := platform.SentTo(42)[i].Text; !strings.Contains(got, "film.mkv: "+c.words) {
			t.Errorf("%q", got)
		}
	}
}
