package channels

import (
	"cmp"
	"path"
	"strings"

	"parley/conversation"
	"parley/conversation/media"
	"parley/conversation/transcript"
)

// Part is one platform message of a delivery.
type Part struct {
	Index int    // number of the part, from 0
	Text  string // text in the platform's markup
	Plain string // Text without markup, for a platform that refuses the markup
	File  *File  // the file that is sent together with the text; nil: none
}

// File is sent to a platform beside a text.
type File struct {
	Name string // without a folder, "reply.md"
	Data []byte // nil before Send: the sender makes the delivery's transcript, and reads a picture

	Picture *media.Image // the file is a picture of an answer, which platforms may show as one; nil: it is none
}

// A reply of more messages than a channel's file_over is sent as its beginning
// with ReplyNotice below it, and as a file with the name ReplyFile.
const (
	ReplyFile   = "reply.md"
	ReplyNotice = "… The whole reply is in the file " + ReplyFile + "."
)

// MediaType returns the media type for the file's name. It names UTF-8 for
// texts that a platform shows, since the platform may not guess it.
func (f *File) MediaType() string {
	if f.Picture != nil {
		return f.Picture.MediaType
	}
	extension := strings.ToLower(strings.TrimPrefix(path.Ext(f.Name), "."))
	if extension == "txt" {
		return "text/plain; charset=utf-8"
	}
	return cmp.Or(transcript.Format(extension).MediaType(), "application/octet-stream")
}

// TranscriptOf returns the file of a delivery's transcript without its bytes,
// which the sender makes for Send. It is nil when the delivery has none.
func TranscriptOf(d conversation.Delivery) *File {
	if d.Transcript == nil {
		return nil
	}
	return &File{Name: d.Transcript.Name}
}

// maxPhoto is the most bytes of a picture that all platforms show as a photo; a larger one is
// sent as a file: https://core.telegram.org/bots/api#sendphoto
const maxPhoto = 10 << 20

// IsPhoto reports whether platforms can show the file as a photo. It may be nil, and
// without its bytes.
func (f *File) IsPhoto() bool {
	if f == nil || f.Picture == nil || max(f.Picture.Size, len(f.Data)) > maxPhoto {
		return false
	}
	return f.Picture.MediaType == "image/jpeg" || f.Picture.MediaType == "image/png"
}
