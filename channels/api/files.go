package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strings"

	"parley/channels/hosted"
)

// file is a file that comes with a message.
type file struct {
	Name      string `json:"name,omitempty" maxLength:"200" example:"plan.md"`
	MediaType string `json:"media_type,omitempty" maxLength:"100" doc:"The media type, used where the bytes do not show it" example:"text/markdown"`
	Data      []byte `json:"data,omitempty" doc:"The bytes in base64, for small files"`
	ID        string `json:"id,omitempty" maxLength:"100" doc:"In place of the other fields: the id of a file that was uploaded to the session"`

	size int64 // size in bytes of a file that was uploaded
	used bool  // the file was uploaded, and another message has named it
}

// checkFiles sets names and media types that can be relied on. A file without a
// name gets one made of its bytes, so that a repeated request is known as such.
func checkFiles(files []file) error {
	if len(files) > hosted.MaxFiles {
		return problem(http.StatusUnprocessableEntity, "The message has %d files. Allowed: %d.", len(files), hosted.MaxFiles)
	}
	for i := range files {
		f := &files[i]
		if f.ID != "" && f.Name == "" && f.MediaType == "" && len(f.Data) == 0 {
			continue
		}
		if f.ID != "" {
			return problem(http.StatusUnprocessableEntity, "File %d has an id, so it has its name, type and data already.", i+1)
		}
		if len(f.Data) == 0 || len(f.Data) > hosted.MaxFile {
			return problem(http.StatusUnprocessableEntity, "File %d has %d bytes. Allowed: 1 to %d; upload a larger one with POST %s/files.", i+1, len(f.Data), hosted.MaxFile, pathOfSession)
		}
		f.MediaType, f.Name = hosted.MediaType(f.MediaType, f.Data), hosted.FileName(f.Name)
		if f.Name == "" {
			extension, isImage := strings.CutPrefix(f.MediaType, "image/")
			switch {
			case isImage:
			case strings.HasPrefix(f.MediaType, "text/"):
				extension = "txt"
			default:
				extension = "bin"
			}
			sum := sha256.Sum256(f.Data)
			f.Name = hex.EncodeToString(sum[:8]) + "." + extension
		}
	}
	return nil
}

// fromDataURL reads a file from a data: URL:
// https://www.rfc-editor.org/rfc/rfc2397
func fromDataURL(url, name string) (file, error) {
	head, data, found := strings.Cut(url, ",")
	kind, isData := strings.CutPrefix(head, "data:")
	kind, isBase64 := strings.CutSuffix(kind, ";base64")
	if !found || !isData || !isBase64 {
		return file{}, problem(http.StatusBadRequest, "The address %q is not taken: nothing is fetched from elsewhere. Allowed: data:TYPE;base64,DATA.", shorten(url))
	}
	bytes, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return file{}, problem(http.StatusBadRequest, "A data: address has data that is not base64.")
	}
	return file{Name: name, MediaType: kind, Data: bytes}, nil
}
