package telegramtest

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
)

// maxDownload is the size of the files that bots may load, in bytes:
// https://core.telegram.org/bots/api#getfile
const maxDownload = 20 << 20

// file is one that people have sent.
type file struct {
	data []byte
	size int64  // bytes, as getFile says
	path string // the file_path that getFile gives
	goTo string // the download redirects there; "" = it does not
}

// AddFile makes a file and returns its file_id.
func (s *Server) AddFile(name string, data []byte) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addFile(name, file{data: data, size: int64(len(data))})
}

// AddLargeFile makes a file without its bytes, which is too large for bots when it
// has more than 20 MB.
func (s *Server) AddLargeFile(name string, size int64) (id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addFile(name, file{size: size})
}

// RedirectFile makes the download of a file redirect to an address.
func (s *Server) RedirectFile(id, address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[id]
	f.goTo = address
	s.files[id] = f
}

// KeepFilesIn makes the server keep its files as one does with --local: getFile
// names their absolute paths below dir/TOKEN, and nothing is downloaded from it. It
// returns the folder of the bot, into which the test puts the files.
func (s *Server) KeepFilesIn(dir string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.filesDir = filepath.Join(dir, s.Token)
	return s.filesDir
}

func (s *Server) addFile(name string, f file) string {
	id := fmt.Sprintf("file-%d", len(s.files)+1)
	f.path = "documents/" + id + filepath.Ext(name)
	s.files[id] = f
	return id
}

// WithPhoto adds a picture in two sizes; the larger one has the bytes.
func WithPhoto(data []byte) Option {
	return func(s *Server, _ *inMessage, extra map[string]any) {
		id := s.addFile("photo.jpg", file{data: data, size: int64(len(data))})
		extra["photo"] = []map[string]any{
			{"file_id": s.addFile("small.jpg", file{data: []byte("small"), size: 5}), "file_unique_id": "s", "width": 90, "height": 60, "file_size": 5},
			{"file_id": id, "file_unique_id": "l", "width": 1280, "height": 853, "file_size": len(data)},
		}
	}
}

// WithDocument adds a document.
func WithDocument(name, mediaType string, data []byte) Option {
	return func(s *Server, _ *inMessage, extra map[string]any) {
		id := s.addFile(name, file{data: data, size: int64(len(data))})
		extra["document"] = map[string]any{"file_id": id, "file_unique_id": id, "file_name": name, "mime_type": mediaType, "file_size": len(data)}
	}
}

func (s *Server) getFile(w http.ResponseWriter, p map[string]string) {
	s.mu.Lock()
	f, known := s.files[p["file_id"]]
	dir := s.filesDir
	s.mu.Unlock()
	switch {
	case !known:
		refuse(w, bad("invalid file_id"))
	case f.size > maxDownload && dir == "":
		refuse(w, bad("file is too big"))
	case dir != "":
		answer(w, map[string]any{"file_id": p["file_id"], "file_size": f.size, "file_path": filepath.Join(dir, f.path)})
	default:
		answer(w, map[string]any{"file_id": p["file_id"], "file_size": f.size, "file_path": f.path})
	}
}

// serveFile answers /file/bot<token>/<file_path>.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request) {
	token, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/file/bot"), "/")
	bot := s.byToken(token)
	if bot == nil {
		refuse(w, Verdict{Code: 401})
		return
	}
	bot.mu.Lock()
	defer bot.mu.Unlock()
	bot.calls["download"]++
	for _, f := range bot.files {
		switch {
		case f.path != path || bot.filesDir != "":
		case f.goTo != "":
			http.Redirect(w, r, f.goTo, http.StatusFound)
			return
		default:
			w.Write(f.data)
			return
		}
	}
	refuse(w, Verdict{Code: 404})
}
