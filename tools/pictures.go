package tools

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"

	"parley/conversation/media"
	"parley/plaintext"
)

// What is taken of the pictures in one result.
const (
	maxPictures     = 8
	maxPictureBytes = 20 << 20 // bytes of all pictures together
)

// withNamedPictures returns the result of a tool with the pictures that are kept. Its text
// names each of them, so that the model can name in its answer the ones to show to the user.
func withNamedPictures(tool string, result Result) Result {
	if len(result.Pictures) == 0 {
		return result
	}
	var kept []media.Image
	var lines strings.Builder
	left, refused := maxPictureBytes, 0
	for _, picture := range result.Pictures {
		picture.MediaType, picture.Size = http.DetectContentType(picture.Data), len(picture.Data)
		if !media.IsImageType(picture.MediaType) || len(kept) == maxPictures || picture.Size > left {
			refused++
			continue
		}
		left -= picture.Size
		picture.Name = pictureName(tool, picture)
		fmt.Fprintf(&lines, "\n[picture %s: the user sees it if your answer names it]", picture.Name)
		kept = append(kept, picture)
	}
	if refused > 0 {
		fmt.Fprintf(&lines, "\n[%d pictures left out: at most %d of 20 MB together are kept, as PNG, JPEG, WebP or GIF]", refused, maxPictures)
	}
	return Result{Text: strings.TrimPrefix(result.Text+lines.String(), "\n"), Whole: result.Whole, Pictures: kept}
}

// pictureName returns a name that no other picture of the session has: a part of it is made
// of the picture's bytes.
func pictureName(tool string, picture media.Image) string {
	extension := strings.Replace(strings.TrimPrefix(picture.MediaType, "image/"), "jpeg", "jpg", 1)
	base := picture.Name
	if dot := strings.LastIndexByte(base, '.'); dot > 0 {
		base = base[:dot]
	}
	word := func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}
	if base = strings.Trim(strings.Map(word, plaintext.ShortLine(base, 40)), "-"); base == "" {
		base = tool
	}
	sum := sha256.Sum256(picture.Data)
	return fmt.Sprintf("%s-%x.%s", base, sum[:4], extension)
}
