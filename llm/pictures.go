package llm

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// What is taken of the pictures in one answer.
const (
	maxPictures     = 8
	maxPictureBytes = 20 << 20 // bytes of all pictures of an answer together
)

// pictureModalities asks a model that makes pictures for them, in OpenRouter's words:
// https://openrouter.ai/docs/features/multimodal/image-generation
const pictureModalities = `,"modalities":["image","text"]`

// addPictures keeps the pictures of a list of parts, as OpenRouter has them in images, and
// other servers in the content. Pictures come as data: URLs; nothing is fetched.
func (a *answer) addPictures(list any) {
	parts, _ := list.([]any)
	for _, part := range parts {
		fields, _ := part.(map[string]any)
		if fields["type"] != "image_url" {
			continue
		}
		address, _ := fields["image_url"].(string)
		if inner, ok := fields["image_url"].(map[string]any); ok {
			address, _ = inner["url"].(string)
		}
		picture, ok := pictureOf(address)
		if !ok || len(a.pictures) == maxPictures || a.pictureBytes+len(picture.Data) > maxPictureBytes {
			a.lost++
			continue
		}
		a.out.arrived()
		a.pictures = append(a.pictures, picture)
		a.pictureBytes += len(picture.Data)
	}
}

// pictureOf reads a data: URL. What its bytes show counts, not what it says of them.
func pictureOf(address string) (Image, bool) {
	head, encoded, _ := strings.Cut(address, ",")
	if !strings.HasPrefix(head, "data:") || !strings.HasSuffix(head, ";base64") || len(encoded) > maxPictureBytes*4/3+4 {
		return Image{}, false
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return Image{}, false
	}
	found := http.DetectContentType(data)
	switch found {
	case "image/png", "image/jpeg", "image/webp", "image/gif":
		return Image{MediaType: found, Data: data}, true
	}
	return Image{}, false
}
