package api

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"parley/channels/hosted"
	"parley/conversation"
	"parley/conversation/files"
)

func (c *Channel) uploadOperations() []operation {
	bytes := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}
	form := &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString, Format: "binary", Description: "A form with one file"}} // with an object, huma reads the body itself
	return []operation{
		endpoint(c, huma.Operation{
			OperationID: "post-file", Method: http.MethodPost, Path: pathOfSession + "/files", Tags: []string{tagMessages},
			Summary: "Upload a file for a message", DefaultStatus: http.StatusCreated, MaxBodyBytes: c.maxUpload(), BodyReadTimeout: -1,
			Description: "The body is the file, with its media type as Content-Type and its name as the parameter name; or a form (multipart/form-data) with one file. " +
				"It is stored as it arrives. A message of the session then names the file by its id, in files. A file that no message has named for a day is deleted.",
			RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": bytes, "multipart/form-data": form}},
			Errors:      []int{http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable, http.StatusInsufficientStorage},
		}, c.postFile),
	}
}

// maxUpload returns how many bytes a request with a file may have: a form has more than the file.
func (c *Channel) maxUpload() int64 { return c.Files.MaxFile + 64<<10 }

type postFile struct {
	OfSession
	Name           string `query:"name" maxLength:"200" doc:"The file's name, unless the form has it" example:"report.pdf"`
	ContentType    string `header:"Content-Type" doc:"The file's media type, or multipart/form-data"`
	IdempotencyKey string `header:"Idempotency-Key" doc:"The upload's id in its session: a repeat with the same key is not stored again. At most 128 letters, digits and . _ ~ : @ + = -" example:"task-42-report"`

	length int64
	body   io.Reader
}

// Resolve keeps the body, which is read as it arrives. huma calls it with the request.
func (p *postFile) Resolve(ctx huma.Context) []error {
	r, _ := humago.Unwrap(ctx) // postFile says itself why the body could not be read
	p.body, p.length = r.Body, -1
	if _, isForm := p.boundary(); !isForm {
		p.length = lengthOf(ctx)
	}
	return nil
}

// boundary returns what separates the parts of a form, if the body is one.
func (p *postFile) boundary() (boundary string, isForm bool) {
	kind, parameters, err := mime.ParseMediaType(p.ContentType)
	return parameters["boundary"], err == nil && kind == "multipart/form-data"
}

type uploadedFile struct {
	Body struct {
		ID        string    `json:"id" doc:"The id by which one message of the session can name the file"`
		Name      string    `json:"name"`
		MediaType string    `json:"media_type"`
		Size      int64     `json:"size" doc:"Bytes"`
		ExpiresAt time.Time `json:"expires_at" doc:"When the file is deleted if no message has named it"`
	}
}

// postFile stores a file for a message that comes later.
func (c *Channel) postFile(ctx context.Context, in *postFile) (*uploadedFile, error) {
	key, err := ownKey(in.Key)
	if err != nil {
		return nil, err
	}
	id, err := parseID(in.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	if !c.gate.IsOpen() {
		return nil, hosted.ErrClosed
	}
	all := files.New(c.Store)
	most := c.Files.MaxFile // of a repeat, which takes no room
	if _, err = all.UploadedOnce(ctx, key, id); errors.Is(err, files.ErrNotFound) {
		most, err = all.Room(ctx, key, c.Files, in.length)
	}
	if err != nil {
		return nil, tooLarge(err)
	}
	name, declared, body, err := in.file()
	if err != nil {
		return nil, tooLarge(err)
	}
	head, _ := body.Peek(512) // an error comes again when it is read
	sent := files.Upload{Key: key, Name: name, MediaType: hosted.MediaType(declared, head), Body: body, Most: most}
	stored, err := all.PutOnce(ctx, sent, id)
	if errors.Is(err, files.ErrTooLarge) {
		return nil, problem(http.StatusRequestEntityTooLarge, "The file has more than %s, the most that is taken here.", files.Size(most))
	}
	if err != nil {
		return nil, tooLarge(err)
	}
	out := &uploadedFile{}
	out.Body.ID, out.Body.Name, out.Body.MediaType, out.Body.Size = stored.Ref, stored.Name, stored.MediaType, stored.Size
	out.Body.ExpiresAt = c.Store.Now().Add(files.KeepUpload).UTC().Truncate(time.Second)
	return out, nil
}

// tooLarge returns the problem of a file that is beyond a limit; other errors as they are.
func tooLarge(err error) error {
	var refused *files.RefusedError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &refused):
		return problem(http.StatusRequestEntityTooLarge, "The file is not taken: %s.", refused.Words)
	case errors.As(err, &large):
		return problem(http.StatusRequestEntityTooLarge, "The file is too large. Allowed: %s.", files.Size(large.Limit))
	case conversation.IsDiskFull(err):
		return withRetryAfter(movedTime, problem(http.StatusInsufficientStorage, "There is no room on the gateway's disk for the file. Send it again later."))
	case errors.Is(err, io.ErrUnexpectedEOF):
		return problem(http.StatusBadRequest, "The body ended early.")
	}
	return err
}

// file returns the file of a request: its body, or the first file of its form.
func (p *postFile) file() (name, declared string, body *bufio.Reader, err error) {
	name, declared, body = hosted.FileName(p.Name), p.ContentType, bufio.NewReader(p.body)
	if boundary, isForm := p.boundary(); isForm {
		part, err := firstFile(multipart.NewReader(body, boundary))
		if err != nil {
			return "", "", nil, err
		}
		name, declared, body = cmp.Or(name, hosted.FileName(part.FileName())), part.Header.Get("Content-Type"), bufio.NewReader(part)
	}
	if name == "" {
		return "", "", nil, problem(http.StatusUnprocessableEntity, "The file has no name: give it as the parameter name.")
	}
	return name, declared, body, nil
}

func firstFile(form *multipart.Reader) (*multipart.Part, error) {
	for {
		part, err := form.NextPart()
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large):
			return nil, err
		case err != nil:
			return nil, problem(http.StatusBadRequest, "The form has no file, or can't be read.")
		case part.FileName() != "":
			return part, nil
		}
	}
}

// uploadedBefore fills in what is known of the files that a message names by their ids.
func (c *Channel) uploadedBefore(ctx context.Context, key conversation.Key, list []file) error {
	for i := range list {
		f := &list[i]
		if f.ID == "" {
			continue
		}
		u, err := files.New(c.Store).Uploaded(ctx, key, f.ID)
		if errors.Is(err, files.ErrNotFound) {
			return problem(http.StatusUnprocessableEntity, "File %d: no file with the id %q waits in this session. Files that no message names are deleted after a day.", i+1, shorten(f.ID))
		}
		if err != nil {
			return err
		}
		f.Name, f.MediaType, f.size, f.used = u.Name, u.MediaType, u.Size, !u.IsReady
	}
	return nil
}

// lengthOf returns how many bytes the body of a request has, -1 where it does not say so.
func lengthOf(ctx huma.Context) int64 {
	r, _ := humago.Unwrap(ctx)
	return r.ContentLength
}
