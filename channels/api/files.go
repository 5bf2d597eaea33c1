package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"mime"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"
)

const (
	maxFiles   = 10       // that come with one message
	maxFile    = 8 << 20  // bytes of one of them: no more of a picture is read
	maxMessage = 24 << 20 // bytes of a request with files
)

// file is a picture or a text that comes with a message.
type file struct {
	Name      string `json:"name,omitempty" maxLength:"200" example:"plan.md"`
	MediaType string `json:"media_type,omitempty" maxLength:"100" doc:"What it is, where that does not show in its bytes" example:"text/markdown"`
	Data      []byte `json:"data" doc:"In base64"`
}

// pictureTypes are what models take for pictures.
var pictureTypes = map[string]string{"image/png": "png", "image/jpeg": "jpeg", "image/webp": "webp", "image/gif": "gif"}

// checkFiles gives files names and types that can be relied on. The name of one
// that has none tells its bytes from others', so that a repeated request is
// known as such.
func checkFiles(files []file) error {
	if len(files) > maxFiles {
		return problem(http.StatusUnprocessableEntity, "The message has %d files. Allowed: %d.", len(files), maxFiles)
	}
	for i := range files {
		f := &files[i]
		if len(f.Data) == 0 || len(f.Data) > maxFile {
			return problem(http.StatusUnprocessableEntity, "File %d has %d bytes. Allowed: 1 to %d.", i+1, len(f.Data), maxFile)
		}
		kind := pictureTypes[http.DetectContentType(f.Data)]
		switch {
		case kind != "":
			f.MediaType = "image/" + kind
		case !utf8.Valid(f.Data):
			return problem(http.StatusUnprocessableEntity, "File %d can't be read here. Allowed: PNG, JPEG, WebP and GIF pictures, and text in UTF-8.", i+1)
		default:
			f.MediaType, kind = textType(f.MediaType), "txt"
		}
		f.Name = baseName(f.Name)
		if f.Name == "" {
			sum := sha256.Sum256(f.Data)
			f.Name = hex.EncodeToString(sum[:8]) + "." + kind
		}
	}
	return nil
}

func textType(said string) string {
	if kind, _, err := mime.ParseMediaType(said); err == nil && strings.HasPrefix(kind, "text/") {
		return kind
	}
	return "text/plain"
}

// baseName is the last part of a name, in one line; "" when nothing is left.
func baseName(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Join(strings.Fields(strings.ToValidUTF8(name, "")), " ")
	if name == "." || name == "/" {
		return ""
	}
	return name
}

// fromDataURL reads a file that stands in its own address:
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
