// Package media describes the files of messages: what an adapter says of them, and what a
// message of a conversation holds of them.
package media

import "time"

// Attachment is a file that came with a message. Its bytes stay with the
// platform until a run fetches them.
type Attachment struct {
	Name      string `json:"name"`
	MediaType string `json:"media_type,omitempty"` // as the platform says, "image/png"
	Size      int64  `json:"size,omitempty"`       // bytes, as the platform says; 0 = not said
	Ref       string `json:"ref"`                  // where it is; read only by the adapter that wrote it
}

// IsImageType reports whether models and browsers show files of a media type as
// pictures. None of these types can hold scripts.
// https://platform.openai.com/docs/guides/images-vision#image-input-requirements
func IsImageType(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/webp", "image/gif":
		return true
	}
	return false
}

// Image is a picture in a user message.
type Image struct {
	ID        int64  `json:"id,omitempty"` // ID of the kept file; 0 while it is not stored, and for pictures of earlier versions
	Name      string `json:"name"`
	MediaType string `json:"media_type"` // see IsImageType
	Size      int    `json:"size"`       // bytes
	Data      []byte `json:"-"`          // nil when read with a message: package conversation reads it

	// Lost says that the bytes could not be read, so that the model is only told the name.
	Lost bool `json:"-"`

	// The row id of the message and the place among its pictures, for those of earlier
	// versions, which have no ID. Set where the message was read from the store.
	Message int64 `json:"-"`
	Place   int   `json:"-"`
}

// File is a file in a user message that is no picture, or could not be kept. The
// message's content has lines about it, for the model and for search: its name, and
// the text of a file that was read.
type File struct {
	ID        int64  `json:"id,omitempty"` // ID of the kept file; 0 = the file is not kept, as in messages of earlier versions
	Name      string `json:"name"`
	MediaType string `json:"media_type,omitempty"` // as the platform said
	Size      int64  `json:"size,omitempty"`       // bytes, as the platform said; 0 = not said
	Lines     Extent `json:"lines"`                // the lines about the file, in the content
	Body      Extent `json:"body,omitzero"`        // part of Lines with the text of the file; zero if it was not read
	Problem   string `json:"problem,omitempty"`    // why it could not be kept or read, in words; "" = it could
	Data      []byte `json:"-"`                    // the file's bytes, only in records of an archive

	Source *Source   `json:"-"` // from where it will be fetched again; nil = it is kept, or there is no other attempt
	Again  time.Time `json:"-"` // when a kept file is read again that can't be read now; zero = it is not
}

// Source says from where a file that could not be fetched is fetched again.
type Source struct {
	Channel    string     `json:"channel"` // channel that the file came by
	Attachment Attachment `json:"attachment"`

	Attempts int       `json:"-"` // number of attempts that failed
	Next     time.Time `json:"-"` // when it is fetched again, at the earliest
}

// Extent is a part of a text, as offsets in bytes: from From, up to but not
// including To.
type Extent struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Within reports whether the extents of a file are parts of content behind at.
func (f File) Within(content string, at int) bool {
	if f.Lines.From < at || f.Lines.To < f.Lines.From || f.Lines.To > len(content) {
		return false
	}
	return f.Body == (Extent{}) || f.Lines.From <= f.Body.From && f.Body.From <= f.Body.To && f.Body.To <= f.Lines.To
}
