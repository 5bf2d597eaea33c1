package discordtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of uploads, in bytes and files:
// https://discord.com/developers/docs/reference#uploading-files
const (
	maxFile    = 10 << 20
	maxRequest = 25 << 20
	maxFiles   = 10
)

// request is a request to a known route.
type request struct {
	*http.Request
	route string
	body  json.RawMessage // of JSON, or the payload_json of a form
	files map[int]File    // by the n of files[n]
}

// read reads the body, which must be JSON or a form with payload_json.
func (r *request) read(w http.ResponseWriter) error {
	if r.Method == http.MethodGet || r.Method == http.MethodDelete {
		return nil
	}
	limited := http.MaxBytesReader(w, r.Body, maxRequest)
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "multipart/form-data" && params["boundary"] != "" {
		r.Body = limited
		return r.readForm()
	}
	raw, err := io.ReadAll(limited)
	switch {
	case tooLarge(err):
		return TooLarge
	case err != nil: // the client died while it sent the body
		return err
	case len(raw) == 0 && kind != "":
		return InvalidJSON
	case len(raw) == 0:
		return nil
	case kind != "application/json":
		return invalid("_type", "CONTENT_TYPE_INVALID", "Expected \"Content-Type\" header to be one of {'application/json'}.")
	case !json.Valid(raw) || !utf8.Valid(raw):
		return InvalidJSON
	}
	r.body = raw
	return nil
}

func tooLarge(err error) bool {
	var limit *http.MaxBytesError
	return errors.As(err, &limit)
}

func (r *request) readForm() error {
	if err := r.ParseMultipartForm(maxRequest); err != nil {
		switch {
		case tooLarge(err):
			return TooLarge
		case errors.Is(err, io.ErrUnexpectedEOF): // the client died
			return err
		}
		return invalid("_type", "FORM_INVALID", "%v", err)
	}
	if payload := r.MultipartForm.Value["payload_json"]; len(payload) > 0 {
		if !json.Valid([]byte(payload[0])) || !utf8.ValidString(payload[0]) {
			return InvalidJSON
		}
		r.body = json.RawMessage(payload[0])
	} else {
		r.body = json.RawMessage("{}")
	}
	r.files = map[int]File{}
	for field, headers := range r.MultipartForm.File {
		index, ok := fileIndex(field)
		if !ok || len(headers) != 1 {
			return invalid(field, "FORM_FIELD_INVALID", "Files are sent one each as files[n], not as %q.", field)
		}
		f, err := headers[0].Open()
		if err != nil {
			return err
		}
		data, err := io.ReadAll(f)
		f.Close()
		switch {
		case err != nil:
			return err
		case len(data) > maxFile:
			return TooLarge
		}
		r.files[index] = File{Name: headers[0].Filename, ContentType: headers[0].Header.Get("Content-Type"), Data: data}
	}
	if len(r.files) > maxFiles {
		return invalid("files", "BASE_TYPE_MAX_LENGTH", "Must be %d or fewer in length.", maxFiles)
	}
	return nil
}

// fileIndex reads "files[3]", and "file" and "file3", which are as old as the
// API and still taken.
func fileIndex(field string) (int, bool) {
	digits := strings.TrimPrefix(field, "file")
	if inner, ok := strings.CutPrefix(field, "files["); ok {
		digits, ok = strings.CutSuffix(inner, "]")
		if !ok {
			return 0, false
		}
	} else if field == "file" {
		digits = "0"
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n >= 0
}

// decode reads the body into a struct. A value of a wrong type is a 50035
// that names the field.
func (r *request) decode(into any) error {
	body := r.body
	if len(body) == 0 {
		body = json.RawMessage("{}")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	err := decoder.Decode(into)
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		return invalid(wrong.Field, "BASE_TYPE_BAD_TYPE", "Value of type %q found where %s is wanted.", wrong.Value, wrong.Type)
	case err != nil:
		return invalid("_body", "DICT_TYPE_CONVERT", "Only dictionaries may be used in a DictType")
	}
	return nil
}
