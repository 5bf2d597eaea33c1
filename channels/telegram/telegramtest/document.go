package telegramtest

import (
	"io"
	"net/http"
)

// Limits of sendDocument: https://core.telegram.org/bots/api#senddocument
const (
	maxCaption  = 1024     // UTF-16 code units after entities parsing
	maxDocument = 50 << 20 // bytes
)

func (s *Server) sendDocument(w http.ResponseWriter, r *http.Request, p map[string]string) {
	m, v := parseText(p, p["caption"])
	if v.passes() && units(m.Text) > maxCaption {
		v = bad("message caption is too long")
	}
	if v.passes() {
		m.Document, v = readDocument(r)
	}
	s.send(w, p, m, v)
}

// readDocument reads the file of a request whose form is parsed already.
func readDocument(r *http.Request) (*Document, Verdict) {
	if r.MultipartForm == nil || len(r.MultipartForm.File["document"]) == 0 {
		return nil, bad("there is no document in the request")
	}
	header := r.MultipartForm.File["document"][0]
	file, err := header.Open()
	if err != nil {
		return nil, Verdict{Code: 500}
	}
	defer file.Close()
	data, err := io.ReadAll(file)
	switch {
	case err != nil:
		return nil, Verdict{Code: 500}
	case len(data) == 0:
		return nil, bad("file must be non-empty")
	case len(data) > maxDocument:
		return nil, Verdict{Code: 413, Description: "Request Entity Too Large"}
	}
	return &Document{Name: header.Filename, Data: string(data)}, Verdict{}
}
