package telegramtest

import (
	"image"
	_ "image/jpeg"
	_ "image/png"
	"io"
	"net/http"
	"strings"
)

// Limits of sendDocument: https://core.telegram.org/bots/api#senddocument
const (
	maxCaption  = 1024     // UTF-16 code units after entities parsing
	maxDocument = 50 << 20 // bytes
)

// maxPhoto is the limit of sendPhoto, in bytes: https://core.telegram.org/bots/api#sendphoto
const maxPhoto = 10 << 20

// sendDocument takes a file, or a photo, in the field that has this name.
func (s *Server) sendDocument(w http.ResponseWriter, r *http.Request, p map[string]string, field string) {
	m, v := parseText(p, p["caption"])
	if v.passes() && units(m.Text) > maxCaption {
		v = bad("message caption is too long")
	}
	if v.passes() {
		m.Document, v = readDocument(r, field)
	}
	if v.passes() && field == "photo" {
		v = m.Document.checkPhoto()
	}
	s.send(w, p, m, v)
}

// checkPhoto notes that a document is shown as a photo, or says why it can't be.
func (d *Document) checkPhoto() Verdict {
	if len(d.Data) > maxPhoto {
		return bad("file is too big")
	}
	config, _, err := image.DecodeConfig(strings.NewReader(d.Data))
	switch {
	case err != nil:
		return bad("IMAGE_PROCESS_FAILED")
	case config.Width+config.Height > 10_000 || max(config.Width, config.Height) > 20*min(config.Width, config.Height):
		return bad("PHOTO_INVALID_DIMENSIONS")
	}
	d.IsPhoto = true
	return Verdict{}
}

// readDocument reads the file of a request whose form is parsed already.
func readDocument(r *http.Request, field string) (*Document, Verdict) {
	if r.MultipartForm == nil || len(r.MultipartForm.File[field]) == 0 {
		return nil, bad("there is no " + field + " in the request")
	}
	header := r.MultipartForm.File[field][0]
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
