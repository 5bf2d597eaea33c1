package discordtest

import (
	"bytes"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"time"
)

// Hosts of Discord's files, which messages name; the adapter finds them here,
// under the same paths.
const (
	cdnHost   = "cdn.discordapp.com"
	proxyHost = "media.discordapp.net"
)

// publish puts the files of a message on the CDN.
func (s *Server) publish(m *Message) {
	m.Files = slices.Clone(m.Files) // a copy of the message may be with a test
	for i := range m.Files {
		f := &m.Files[i]
		if f.URL != "" {
			continue
		}
		f.id = s.newID()
		if f.ContentType == "" {
			f.ContentType = mime.TypeByExtension(path.Ext(f.Name))
		}
		where := "/attachments/" + m.Channel + "/" + f.id + "/" + url.PathEscape(f.Name)
		f.URL = "https://" + cdnHost + where + "?ex=7fffffff&is=0&hm=discordtest"
		s.uploads[where] = *f
	}
}

// pathOf returns the path of a file's address.
func pathOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.EscapedPath()
}

// stall sends half of a file, and the rest when its Stall is closed.
func stall(w http.ResponseWriter, r *http.Request, f File) {
	half := len(f.Data) / 2
	_, _ = w.Write(f.Data[:half])
	_ = http.NewResponseController(w).Flush()
	select {
	case <-f.Stall:
		_, _ = w.Write(f.Data[half:])
	case <-r.Context().Done():
	}
}

// downloads is the route's name in Fail and Calls.
const downloads = "GET /attachments"

func (s *Server) serveUpload(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls[downloads]++
	f, found := s.uploads[r.URL.EscapedPath()]
	v := f.Verdict
	if next := s.failures[downloads]; len(next) > 0 {
		v, s.failures[downloads] = next[0], next[1:]
	}
	if r.Header.Get("Authorization") != "" {
		s.violate("the bot's token was sent to the CDN: %s", r.URL.Path)
	}
	s.broadcast()
	s.mu.Unlock()
	v.pause(r)
	switch {
	case !v.passes():
		refuse(w, v)
	case !found:
		http.Error(w, "This content is no longer available.", http.StatusNotFound)
	default:
		w.Header().Set("Content-Type", f.ContentType)
		if f.Stall != nil {
			stall(w, r, f)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.Data))
	}
}
