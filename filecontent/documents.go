package filecontent

import (
	"context"
	"errors"

	"golang.org/x/sync/semaphore"

	"parley/conversation/files"
	"parley/filecontent/document"
)

// extracting lets two documents of the process be read at a time.
var extracting = semaphore.NewWeighted(2)

// document opens the text of a document, which is extracted once.
func (r *Reader) document(ctx context.Context, file files.File) (*Content, error) {
	if len(r.documents.Command) == 0 {
		return nil, &Problem{"documents are not read here"}
	}
	form, made, err := r.files.Form(ctx, file, files.FormText)
	if err == nil && !made {
		form, err = r.extract(ctx, file)
	}
	if err != nil {
		return nil, err
	}
	if form.Problem != "" {
		return nil, &Problem{form.Problem}
	}
	return contentOf(form), nil
}

func (r *Reader) extract(ctx context.Context, file files.File) (files.Form, error) {
	form := files.Form{Kind: files.FormText, MediaType: "text/plain"}
	if err := extracting.Acquire(ctx, 1); err != nil {
		return form, err
	}
	defer extracting.Release(1)
	if made, ok, err := r.files.Form(ctx, file, files.FormText); ok || err != nil { // meanwhile
		return made, err
	}
	opened, err := r.files.Open(ctx, file)
	if err != nil {
		return form, err
	}
	defer opened.Close()
	text, err := r.documents.Text(ctx, opened.Whole())
	var problem *document.Problem
	if errors.As(err, &problem) {
		form.Problem = problem.Words
	} else if err != nil {
		return form, err
	}
	form.Data = []byte(text)
	return form, r.files.AddForm(ctx, file, form)
}
