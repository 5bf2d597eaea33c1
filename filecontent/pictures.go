package filecontent

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sync/semaphore"

	"parley/conversation/files"
	"parley/filecontent/picture"
)

// decoding lets one picture of the process be decoded at a time, since that takes up
// to 200 MiB.
var decoding = semaphore.NewWeighted(1)

// CheckPicture returns a *Problem when a picture can't be shown to models. It decodes
// the picture, and makes a smaller one where models need that.
func (r *Reader) CheckPicture(ctx context.Context, file files.File) error {
	_, _, err := r.picture(ctx, file, true)
	return err
}

// Picture returns a picture as models take it: as it is, or a smaller one, which is
// made once. A *Problem says why there is none.
func (r *Reader) Picture(ctx context.Context, file files.File) (data []byte, mediaType string, err error) {
	return r.picture(ctx, file, false)
}

func (r *Reader) picture(ctx context.Context, file files.File, check bool) (data []byte, mediaType string, err error) {
	if data, mediaType, made, err := r.madePicture(ctx, file); made || err != nil {
		return data, mediaType, err
	}
	opened, err := r.files.Open(ctx, file)
	if err != nil {
		return nil, "", err
	}
	defer opened.Close()
	fits, err := picture.Fits(opened.Whole(), file.Size)
	if err != nil {
		return nil, "", problemOf(err)
	}
	if !fits {
		return r.makePicture(ctx, file, opened)
	}
	if check {
		return nil, "", decode(ctx, opened)
	}
	data = make([]byte, file.Size)
	_, err = io.ReadFull(opened.Whole(), data)
	return data, file.MediaType, err
}

// madePicture returns what makePicture has stored. made is false when it has not.
func (r *Reader) madePicture(ctx context.Context, file files.File) (data []byte, mediaType string, made bool, err error) {
	form, made, err := r.files.Form(ctx, file, files.FormPicture)
	if made && form.Problem != "" {
		err = &Problem{form.Problem}
	}
	return form.Data, form.MediaType, made, err
}

// decode returns a *Problem when a picture is broken: a model that is sent it would
// refuse the whole list.
func decode(ctx context.Context, opened *files.Reader) error {
	return withDecoder(ctx, opened, func(open func() io.Reader) error { return picture.Check(open()) })
}

func (r *Reader) makePicture(ctx context.Context, file files.File, opened *files.Reader) (data []byte, mediaType string, err error) {
	made := false
	err = withDecoder(ctx, opened, func(open func() io.Reader) (err error) {
		if data, mediaType, made, err = r.madePicture(ctx, file); made || err != nil { // meanwhile
			return err
		}
		data, mediaType, err = picture.Fit(open)
		return err
	})
	if made {
		return data, mediaType, err
	}
	form := files.Form{Kind: files.FormPicture, MediaType: mediaType, Data: data}
	var problem *Problem
	if errors.As(err, &problem) {
		form.Problem = problem.Words
	} else if err != nil {
		return nil, "", err
	}
	if stored := r.files.AddForm(ctx, file, form); err == nil {
		err = stored
	}
	return data, mediaType, err
}

// withDecoder calls do, which decodes a picture, while no other picture is decoded.
// What is wrong with the picture is a *Problem, also a panic of the decoder; an error
// of reading it is returned as it is.
func withDecoder(ctx context.Context, opened *files.Reader, do func(open func() io.Reader) error) (err error) {
	if err := decoding.Acquire(ctx, 1); err != nil {
		return err
	}
	defer decoding.Release(1)
	var reading error
	defer func() {
		if p := recover(); p != nil {
			err = &Problem{"the picture is broken"}
		}
		if reading != nil {
			err = reading
		}
	}()
	return problemOf(do(func() io.Reader { return &noting{opened.Whole(), &reading} }))
}

// noting notes the error of a reader, which decoders do not tell from a broken
// picture.
type noting struct {
	io.Reader
	err *error
}

func (n *noting) Read(p []byte) (int, error) {
	read, err := n.Reader.Read(p)
	if err != nil && err != io.EOF {
		*n.err = err
	}
	return read, err
}

func problemOf(err error) error {
	switch {
	case errors.Is(err, picture.ErrTooLarge):
		return &Problem{"it has too many pixels to be shown"}
	case errors.Is(err, picture.ErrBroken):
		return &Problem{"the picture is broken"}
	}
	return err
}
