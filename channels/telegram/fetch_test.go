package telegram_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"parley/channels/telegram"
	"parley/channels/telegram/telegramtest"
	"parley/conversation/media"
)

// attached sends a document, and returns the attachment of the accepted message.
func attached(g *gateway, opts ...telegramtest.Option) media.Attachment {
	g.t.Helper()
	n := len(g.wait(0))
	g.srv.Say(telegramtest.Private(ada), ada, "look", opts...)
	in := g.wait(n + 1)[n]
	if len(in.Attachments) != 1 {
		g.t.Fatalf("attachments of %+v", in)
	}
	return in.Attachments[0]
}

// fetch reads all of a file.
func fetch(ctx context.Context, c *telegram.Channel, file media.Attachment) (string, error) {
	body, err := c.Fetch(ctx, file)
	if err != nil {
		return "", err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	return string(data), err
}

func TestFetchDownloadsAFile(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	c := g.channel()
	g.run(c)
	file := attached(g, telegramtest.WithDocument("notes.txt", "text/plain", []byte("hello")))
	data, err := fetch(deadline(t), c, file)
	if must(t, err); data != "hello" {
		t.Fatalf("got %q", data)
	}
}

func TestFetchExplainsFailures(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	c := g.channel()
	g.run(c)

	large := g.srv.AddLargeFile("film.mkv", 2<<30)
	moved := g.srv.AddFile("moved.txt", []byte("x"))
	g.srv.RedirectFile(moved, other.URL)
	for want, ref := range map[string]string{
		"bots get no files of more than 20 MB from Telegram": `{"bot":"7000001","file":"` + large + `"}`,
		"the answer was 302 Found":                           `{"bot":"7000001","file":"` + moved + `"}`,
		"it is no longer on Telegram":                        `{"bot":"7000001","file":"gone"}`,
		"it came to another bot, which alone can load it":    `{"bot":"9","file":"` + moved + `"}`,
		"it is not known where it is":                        `nonsense`,
	} {
		if _, err := fetch(deadline(t), c, media.Attachment{Ref: ref}); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %q", ref, err, want)
		}
	}
	if elsewhere.Load() != 0 {
		t.Error("a redirect to another host was followed")
	}
	g.srv.Close()
	_, err := fetch(deadline(t), c, media.Attachment{Ref: `{"bot":"7000001","file":"` + moved + `"}`})
	if err == nil || strings.Contains(err.Error()+g.log.String(), "not-a-secret") {
		t.Errorf("the token is in %v, or in the log:\n%s", err, g.log.String())
	}
}

// A local Bot API server keeps files on its disk, also those that are too large for Telegram's. Nothing
// outside of the bot's folder is read, whatever path the server names.
func TestFetchReadsTheFolderOfALocalServer(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	dir := t.TempDir()
	folder := g.srv.KeepFilesIn("/srv/elsewhere")
	must(t, os.MkdirAll(filepath.Join(dir, filepath.Base(folder), "documents"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "secret.txt"), []byte("secret"), 0o600))
	must(t, os.Symlink(filepath.Join(dir, "secret.txt"), filepath.Join(dir, filepath.Base(folder), "documents", "file-2.txt")))
	must(t, os.WriteFile(filepath.Join(dir, filepath.Base(folder), "documents", "file-1.mkv"), []byte("film"), 0o600))
	film := g.srv.AddLargeFile("film.mkv", 4)
	link := g.srv.AddLargeFile("link.txt", 4)

	without := g.channel()
	if _, err := fetch(deadline(t), without, media.Attachment{Ref: `{"bot":"7000001","file":"` + film + `"}`}); err == nil {
		t.Error("a file was read although api_files is not set")
	}
	c := g.channel(func(cfg *telegram.Config) { cfg.APIFiles = dir })
	data, err := fetch(deadline(t), c, media.Attachment{Ref: `{"bot":"7000001","file":"` + film + `"}`})
	if must(t, err); data != "film" {
		t.Errorf("got %q", data)
	}
	if data, err := fetch(deadline(t), c, media.Attachment{Ref: `{"bot":"7000001","file":"` + link + `"}`}); err == nil {
		t.Errorf("a link out of the folder was followed: %q", data)
	}
	if strings.Contains(g.log.String(), "not-a-secret") || !strings.Contains(g.log.String(), "api_files is not set") {
		t.Errorf("log:\n%s", g.log.String())
	}
}
