package filecontent

import (
	"context"
	"io"
	"strings"
	"testing"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"parley/conversation"
	"parley/conversation/files"
	"parley/conversation/media"
	"parley/conversation/storetest"
)

// Texts in old and foreign encodings are decoded; files that are no text are not read.
func TestTextsInOtherEncodingsAreRead(t *testing.T) {
	t.Parallel()
	const table = "Name;Größe;Preis\r\nMüller;3;4,50 €\r\n"
	const russian = "Привет, мир! Это обычный русский текст, который нужно прочитать целиком.\n"
	utf16 := func(end unicode.Endianness) encoding.Encoding { return unicode.UTF16(end, unicode.ExpectBOM) }
	store, id := storetest.New(t), 0
	reader := New(files.New(store))
	for name, c := range map[string]struct {
		as         encoding.Encoding
		text, want string
	}{
		"little.csv":  {utf16(unicode.LittleEndian), table, table},
		"big.csv":     {utf16(unicode.BigEndian), table, table},
		"windows.csv": {charmap.Windows1252, table, table},
		"latin.txt":   {charmap.ISO8859_1, "Grüße aus Köln", "Grüße aus Köln"},
		"russian.txt": {charmap.Windows1251, strings.Repeat(russian, 3), strings.Repeat(russian, 3)},
		"large.txt":   {utf16(unicode.LittleEndian), strings.Repeat("ä", 5<<20), strings.Repeat("ä", 4<<20) + decodedEnd},
		"utf8.txt":    {encoding.Nop, table, table},
		"noise.txt":   {encoding.Nop, "\x81\x8d\x8f\x90\x9d", ""},
	} {
		encoded, err := c.as.NewEncoder().String(c.text)
		if err != nil {
			t.Fatal(err)
		}
		id++
		file := keep(t, store, id, name, encoded)
		for range 2 { // as it is made, and as it is kept
			content, err := reader.Text(t.Context(), file)
			if c.want == "" {
				if err != notText {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got, err := content.ReadPart(0, int(content.Size)); err != nil || strings.TrimPrefix(got, "\ufeff") != c.want {
				t.Errorf("%s is read as %.60q (%d bytes), want %.60q (%d bytes), %v", name, got, len(got), c.want, len(c.want), err)
			}
		}
	}
}

// keep stores a file of a message.
func keep(t *testing.T, s *conversation.Store, id int, name, data string) files.File {
	t.Helper()
	const key = conversation.Key("cli:desk")
	in := storetest.Say(key, id, "look")
	in.Attachments = []media.Attachment{{Name: name, Ref: "there"}}
	storetest.Accept(t, s, in)
	waiting := storetest.Begin(t, s, key, 1000).Waiting
	kept, err := files.New(s).Keep(t.Context(), files.Incoming{
		Session: key, Inbound: waiting[len(waiting)-1].ID, Attachment: in.Attachments[0],
		Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(data)), nil },
	}, files.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	return kept
}
