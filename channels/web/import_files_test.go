package web_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// pictureOf returns a small PNG, another one for each shade.
func pictureOf(t *testing.T, shade uint8) []byte {
	t.Helper()
	picture := image.NewGray(image.Rect(0, 0, 8, 8))
	for i := range picture.Pix {
		picture.SetGray(i%8, i/8, color.Gray{shade})
	}
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// member is a file in an archive.
type member struct {
	name   string
	data   []byte
	claims uint64 // the size that the archive gives it, 0 for the true one
	torn   bool   // the data stand there as if they were compressed
}

func zipOf(t *testing.T, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	for _, m := range members {
		header := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		create := archive.CreateHeader
		if m.claims > 0 || m.torn {
			if !m.torn {
				m.data = deflated(t, m.data)
			}
			header.UncompressedSize64, header.CompressedSize64 = max(m.claims, 1000), uint64(len(m.data))
			create = archive.CreateRaw
		}
		w, err := create(header)
		if err == nil {
			_, err = w.Write(m.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func deflated(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// chatGPTExport returns conversations.json with one conversation of messages, each given as its
// role, the parts of its content and its attachments.
func chatGPTExport(id string, messages ...[3]string) string {
	var nodes []string
	parent := "null"
	for i, m := range messages {
		nodes = append(nodes, fmt.Sprintf(`"n%d": {"parent": %s, "message": {"id": "n%d", "author": {"role": %q, "name": "dalle"}, "create_time": 1700000000,
			"content": {"content_type": "multimodal_text", "parts": [%s]}, "recipient": "all", "metadata": {"attachments": [%s]}}}`, i, parent, i, m[0], m[1], m[2]))
		parent = fmt.Sprintf(`"n%d"`, i)
	}
	return fmt.Sprintf(`[{"id": %q, "title": "Holiday", "current_node": %s, "mapping": {%s}}]`, id, parent, strings.Join(nodes, ","))
}

func pointer(address string) string {
	return fmt.Sprintf(`{"content_type": "image_asset_pointer", "asset_pointer": %q, "size_bytes": 5}`, address)
}

// An imported chat has the pictures and files of ChatGPT's export: those of the person's questions, and
// those that ChatGPT made in its answers. A second import changes nothing.
func TestImportedChatsHaveTheirFiles(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	cat, beach, plot, scan := pictureOf(t, 1), pictureOf(t, 2), pictureOf(t, 3), pictureOf(t, 4)
	export := zipOf(t,
		member{name: "conversations.json", data: []byte(chatGPTExport("a",
			[3]string{"user", pointer("file-service://file-Cat1") + `, "Which cat?", ` + pointer("sediment://file_00scan") + "," + pointer("sediment://file_gone"),
				`{"id": "file-Cat1", "name": "cat.png"}, {"id": "file-List", "name": "list.csv"}, {"id": "file-Lost", "name": "lost.pdf"}`},
			[3]string{"tool", pointer("file-service://file-Beach"), ""},
			[3]string{"assistant", `"A grey one."`, ""},
			[3]string{"user", `"Plot it"`, ""},
			[3]string{"tool", pointer("sediment://file_0aplot?shared_conversation_id=1"), ""}))},
		member{name: "file-Cat1-cat.png", data: cat},
		member{name: "file-List-list.csv", data: []byte("a,b\n1,2\n")},
		member{name: "dalle-generations/file-Beach-0ab1.png", data: beach},
		member{name: "user-Xyz/file_0aplot-sanitized.png", data: plot},
		member{name: "file_00scan.dat", data: scan},
		member{name: "conversation_asset_file_names.json", data: []byte(`{"file_00scan.dat": "scan of the garden.png"}`)},
	)
	if body := h.importFile("export.zip", export); !strings.Contains(body, "1 conversation is in your list of chats now") {
		t.Fatalf("the import ended with %s", body)
	}
	_, list, _ := strings.Cut(h.browser.Page("/"), `data-list="open"`)
	chat := hrefs(list)[0]
	page := h.browser.Page(chat)
	for _, want := range []string{"Which cat?", "A grey one.", "cat.png", "list.csv", "scan of the garden.png", "[image file_gone, not imported]", "[file lost.pdf, not imported]"} {
		if !strings.Contains(page, want) {
			t.Errorf("the chat does not show %q", want)
		}
	}
	if strings.Contains(page, "cat.png, not imported") {
		t.Error("a picture that was imported is named as one that was not")
	}
	before, answer, _ := strings.Cut(page, "A grey one.")
	if n := strings.Count(before, "<figure>"); n != 2 {
		t.Errorf("%d pictures stand with the question and what ChatGPT called, want 2: %s", n, before)
	}
	if n := strings.Count(answer, "<figure>"); n != 2 {
		t.Errorf("%d pictures stand in the answers, want 2: %s", n, answer)
	}
	for _, want := range [][]byte{cat, beach, plot, scan} {
		if !h.serves(page, `<img[^>]+src="([^"]+)"`, want) {
			t.Errorf("a picture of %d bytes can't be seen", len(want))
		}
	}
	if !h.serves(page, `href="([^"]+/attachment/[^"]+)"`, []byte("a,b\n1,2\n")) {
		t.Error("the file can't be downloaded")
	}
	h.importFile("export.zip", export)
	if again := h.browser.Page(chat); strings.Count(again, "<figure>") != 4 {
		t.Error("the second import changed the chat")
	}
	h.ask(strings.TrimPrefix(chat, "/chat/"), "And now?")
	if refused := h.model.Refusals(); len(refused) > 0 {
		t.Errorf("the model has refused the chat: %v", refused)
	}
}

// Archives with false sizes and broken files use no more memory than the limits of [files] allow. The
// conversation is imported all the same, with the reason beside each missing file.
func TestImportOfAHostileArchive(t *testing.T) {
	t.Parallel()
	h := newHarness(t) // max_file is 8 MiB
	bomb := make([]byte, 9<<20)
	export := zipOf(t,
		member{name: "conversations.json", data: []byte(chatGPTExport("b",
			[3]string{"user", `"Look", ` + pointer("file-service://file-Bomb") + "," + pointer("file-service://file-False") + "," + pointer("file-service://file-Broken") + "," +
				pointer("file-service://file-Path") + "," + pointer("file-service://file-NoPicture") + "," + pointer("file-service://file-Empty"), ""}))},
		member{name: "file-Bomb-big.png", data: bomb},
		member{name: "file-False-small.png", data: bomb[:4<<20], claims: 1000},
		member{name: "file-Broken-torn.png", data: bytes.Repeat([]byte("torn by hand "), 100), torn: true},
		member{name: "../../../file-Path-out.png", data: pictureOf(t, 5)},
		member{name: "file-NoPicture-x.png", data: append(pictureOf(t, 6)[:40:40], "torn"...)},
		member{name: "file-Empty-none.png"},
	)
	if body := h.importFile("export.zip", export); !strings.Contains(body, "1 conversation is in your list of chats now") {
		t.Fatalf("the import ended with %s", body)
	}
	_, list, _ := strings.Cut(h.browser.Page("/"), `data-list="open"`)
	page := h.browser.Page(hrefs(list)[0])
	for _, want := range []string{"Look", "big.png", "at most 8.0 MiB of a file are kept", "small.png", "torn.png", "the archive is broken there", "out.png", "x.png", "the picture is broken", "it is empty"} {
		if !strings.Contains(page, want) {
			t.Errorf("the chat does not show %q: %s", want, page)
		}
	}
	if n := strings.Count(page, "<figure>"); n != 1 || !h.serves(page, `<img[^>]+src="([^"]+)"`, pictureOf(t, 5)) {
		t.Errorf("%d pictures are shown, want the good one", n)
	}
	h.ask(strings.TrimPrefix(hrefs(list)[0], "/chat/"), "Can you go on?")
	if page = h.browser.Page(hrefs(list)[0]); !strings.Contains(page, "Can you go on?") {
		t.Error("the chat can't be continued")
	}
	if refused := h.model.Refusals(); len(refused) > 0 {
		t.Errorf("the model has refused the chat: %v", refused)
	}
}

// serves reports whether a page names the address of a file with these bytes.
func (h *harness) serves(page, pattern string, want []byte) bool {
	h.t.Helper()
	for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(page, -1) {
		if status, body, _ := h.browser.Get(html.UnescapeString(found[1])); status == http.StatusOK && body == string(want) {
			return true
		}
	}
	return false
}
