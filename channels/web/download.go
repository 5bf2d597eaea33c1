package web

import (
	"mime"
	"net/http"
	"strconv"

	"parley/conversation"
	"parley/conversation/kept"
	"parley/conversation/transcript"
)

// sendFile writes the transcript that a notice offers, straight into the
// response.
func (c *Channel) sendFile(w http.ResponseWriter, r *http.Request) {
	name, ok := chatName(w, r)
	if !ok {
		return
	}
	file, err := c.fileOf(r, name)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	of, place, seen, err := transcript.Read(r.Context(), c.Store, file)
	if err != nil {
		c.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": file.Name}))
	writer := transcript.NewWriter(w, transcript.Format(file.Format), of.Key, place)
	if err = transcript.Copy(writer, of, seen); err == nil {
		err = writer.Close()
	}
	if err != nil {
		c.Log.Warn("transcript download failed", "session", keyOf(name), "file", file.Name, "error", err)
		panic(http.ErrAbortHandler) // half of a file must not look like a whole one
	}
}

// fileOf returns the transcript of the notice that a request names.
func (c *Channel) fileOf(r *http.Request, name string) (conversation.Transcript, error) {
	id, err := strconv.ParseInt(r.PathValue("notice"), 10, 64)
	if err != nil {
		return conversation.Transcript{}, conversation.ErrNotFound
	}
	found, err := kept.New(c.Store).Notices(r.Context(), keyOf(name), id-1, 1)
	if err != nil {
		return conversation.Transcript{}, err
	}
	if len(found) == 0 || found[0].ID != id || found[0].Transcript == nil {
		return conversation.Transcript{}, conversation.ErrNotFound
	}
	return *found[0].Transcript, nil
}
