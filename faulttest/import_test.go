package faulttest

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"parley/gateway/gatewaytest"
)

// conversationsFile returns a file for import with conversations of one question and its answer.
func conversationsFile(talks int) []byte {
	var file bytes.Buffer
	for i := range talks {
		fmt.Fprintf(&file, `{"id":%d,"messages":[{"role":"user","content":"question %d"},{"role":"assistant","content":"answer %d"}]}`+"\n", i, i, i)
	}
	return file.Bytes()
}

// exportWithFiles returns ChatGPT's export with conversations of a question and its answer. Each
// question has a file of its own, and one that all have.
func exportWithFiles(t *testing.T, talks int) []byte {
	t.Helper()
	var file bytes.Buffer
	archive := zip.NewWriter(&file)
	add := func(name, data string) {
		w, err := archive.Create(name)
		if err == nil {
			_, err = w.Write([]byte(data))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var list []string
	for i := range talks {
		list = append(list, fmt.Sprintf(`{"id": "%d", "title": "Talk %d", "current_node": "b", "mapping": {
			"a": {"parent": null, "message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["question"]},
				"metadata": {"attachments": [{"id": "file-Own%d", "name": "own.txt"}, {"id": "file-All", "name": "all.txt"}]}}},
			"b": {"parent": "a", "message": {"author": {"role": "assistant"}, "recipient": "all", "content": {"content_type": "text", "parts": ["answer"]}}}}}`, i, i, i))
		add(fmt.Sprintf("file-Own%d-own.txt", i), fmt.Sprintf("what is in file %d", i))
	}
	add("file-All-all.txt", "what is in the file that all have")
	add("conversations.json", "["+strings.Join(list, ",")+"]")
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// TestKilledInAnImport kills the gateway repeatedly while it imports a file from the web chat. In the
// end each conversation of the file is one chat that can be continued, with its files, and the page
// counts them as one import.
func TestKilledInAnImport(t *testing.T) {
	t.Parallel()
	t.Run("texts", func(t *testing.T) {
		t.Parallel()
		killDuringImport(t, "talks.jsonl", conversationsFile(400), 400, 0)
	})
	t.Run("files", func(t *testing.T) {
		t.Parallel()
		killDuringImport(t, "export.zip", exportWithFiles(t, 150), 150, 2)
	})
}

// killDuringImport imports a file with conversations whose questions have a number of files each.
func killDuringImport(t *testing.T, name string, file []byte, talks, files int) {
	const kills = 3
	g := gatewaytest.New(t, gatewaytest.Options{Config: gatewaytest.OpenToAll})
	g.Start()
	if err := postForm(g.URL+"/import", nil, name, file); err != nil {
		t.Fatal(err)
	}
	chats := func() (n int) {
		gatewaytest.Await(t, "the number of chats", func() bool {
			return g.Store().DB().QueryRowContext(t.Context(), `SELECT count(*) FROM conversations WHERE active = 1 AND deleted = 0 AND messages = 2`).Scan(&n) == nil
		})
		return n
	}
	page := func() string { return gatewaytest.NewBrowser(t, g.URL).Page("/import") }
	ended := func() bool { return !strings.Contains(page(), "data-under-way") }
	interrupted := 0
	for range kills {
		before := chats()
		gatewaytest.Await(t, "more chats", func() bool { return chats() > before || ended() })
		g.Kill()
		if _, err := os.Stat(g.Database + ".import/current"); err == nil {
			interrupted++
		}
		g.Start()
	}
	if interrupted == 0 {
		t.Error("the import ended before the first kill")
	}
	gatewaytest.Await(t, "the end of the import", ended)
	if body := page(); !strings.Contains(body, fmt.Sprintf("%d conversations are in your list of chats now.", talks)) || strings.Contains(body, "already") {
		t.Errorf("the import ended with %s", body)
	}
	if n := chats(); n != talks {
		t.Errorf("%d chats can be written in, want %d", n, talks)
	}
	var whole, rows, blobs int
	err := g.Store().DB().QueryRowContext(t.Context(), `
		SELECT (SELECT count(*) FROM messages m WHERE m.role = 'user' AND (SELECT count(*) FROM files f WHERE f.message_id = m.id AND f.blob_id IS NOT NULL) = ?1),
			(SELECT count(*) FROM files), (SELECT count(*) FROM blobs)`, files).Scan(&whole, &rows, &blobs)
	if err != nil || whole != talks || rows != talks*files || files > 0 && blobs != talks+1 {
		t.Errorf("%d of %d questions have %d files each, %d files are kept, of %d contents, %v", whole, talks, files, rows, blobs, err)
	}
	g.Stop()
}
