package importer

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/archive"
	"parley/conversation/transcript"
)

// maxRecord bounds one record of an archive, in bytes: a message with the bytes of its
// files, in base64.
const maxRecord = 1 << 30

// startsArchive reads a line that begins an archive, or a conversation of it with all its
// records. is reports whether it does.
func (l *lines) startsArchive(n int, raw []byte) (is bool, err error) {
	var line struct {
		Type transcript.Kind `json:"type"`
	}
	if json.Unmarshal(raw, &line) != nil || line.Type != transcript.KindSession && (line.Type != transcript.KindConversation || l.session == nil) {
		return false, nil
	}
	if err := l.close(); err != nil || line.Type == transcript.KindConversation {
		return true, errors.Join(err, l.archived(n, raw))
	}
	session, err := transcript.ParseSession(raw)
	if err == nil {
		err = checkKey(session.Key)
	}
	l.session = &session
	return true, inLine(n, err)
}

// archived hands over the conversation of an archive that begins with a line. Its records
// are read from the lines that follow.
func (l *lines) archived(n int, raw []byte) error {
	place := fmt.Sprintf("the conversation in line %d", n)
	head, err := parseHead(raw)
	if err != nil {
		if err := l.take(Entry{Place: place, Err: err}); err != nil {
			return err
		}
		return passOver(func() (transcript.Kind, []byte, error) { return l.record("") })
	}
	return takeArchived(l.take, place, *l.session, head, func() (transcript.Kind, []byte, error) { return l.record(head.ID) })
}

// brokenRecord is the error of a record behind which the next one can be read.
type brokenRecord struct{ error }

// record returns the next record of a conversation, of any where id is "", and io.EOF
// behind the last one.
func (l *lines) record(id string) (transcript.Kind, []byte, error) {
	for {
		raw, err := l.read(maxRecord)
		switch {
		case errors.Is(err, errTooLarge):
			return "", nil, brokenRecord{inLine(l.n, err)}
		case err != nil:
			return "", nil, inLine(l.n, err)
		case len(bytes.TrimSpace(raw)) == 0:
			continue
		}
		var line struct {
			Type         transcript.Kind `json:"type"`
			Conversation string          `json:"conversation"`
			Role         string          `json:"role"`
		}
		if err := json.Unmarshal(raw, &line); err != nil {
			return "", nil, brokenRecord{inLine(l.n, inWords(err))}
		}
		switch {
		case line.Type == "" && line.Role != "" && (line.Conversation == id || id == ""):
			return transcript.KindMessage, raw, nil
		case line.Type == "", line.Type == transcript.KindSession, line.Type == transcript.KindConversation:
			l.next = raw
			return "", nil, io.EOF
		}
		return line.Type, raw, nil
	}
}

// inLine adds the number of the line to an error.
func inLine(n int, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("line %d: %w", n, err)
}

func parseHead(raw []byte) (archive.Head, error) {
	head, err := transcript.ParseConversation(raw)
	if err == nil && head.ID != stableID("", head.ID, time.Time{}) {
		err = fmt.Errorf("id: found %q, allowed: a UUIDv7", head.ID)
	}
	return head, err
}

// takeArchived hands a conversation over, and passes over those of its records that are
// not taken.
func takeArchived(take func(Entry) error, place string, session archive.Session, head archive.Head, read func() (transcript.Kind, []byte, error)) error {
	var ended error // io.EOF, or why the rest of the file can't be read
	records := func(yield func(archive.Record, error) bool) {
		for ended == nil {
			var r archive.Record
			kind, raw, err := read()
			if err == nil {
				r, err = transcript.ParseRecord(kind, raw)
			} else if !errors.As(err, &brokenRecord{}) {
				ended = err
			}
			if errors.Is(ended, io.EOF) {
				return
			}
			if err != nil {
				err = fmt.Errorf("%w: %w", conversation.ErrInvalid, inWords(err))
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
	err := take(Entry{Place: place, Archived: &Archived{session, head, records}})
	switch {
	case err != nil:
		return err
	case ended == nil:
		return passOver(read)
	case errors.Is(ended, io.EOF):
		return nil
	}
	return ended
}

// passOver reads the rest of the records of a conversation.
func passOver(read func() (transcript.Kind, []byte, error)) error {
	for {
		_, _, err := read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.As(err, &brokenRecord{}):
			return err
		}
	}
}

// maxKey is how many bytes the key of a session may have, as in the API.
const maxKey = 512

func checkKey(key conversation.Key) error {
	_, rest, _ := strings.Cut(string(key), ":")
	if key.Channel() == "" || rest == "" || len(key) > maxKey || !utf8.ValidString(string(key)) || strings.ContainsFunc(string(key), unicode.IsControl) {
		return fmt.Errorf("session: found %q, allowed: CHANNEL:NAME", key[:min(len(key), 80)])
	}
	return nil
}

// document reads one JSON document with the conversations of a session.
type document struct {
	in      *limitedReader
	decoder *json.Decoder
	take    func(Entry) error
	key     conversation.Key
	now     time.Time

	session *archive.Session // nil in exports of earlier versions
	n       int              // number of the conversation, from 1
}

// limitedReader fails when a record is too large.
type limitedReader struct {
	io.Reader
	left int
}

func (r *limitedReader) Read(p []byte) (n int, err error) {
	if r.left <= 0 {
		return 0, errTooLarge
	}
	n, err = r.Reader.Read(p)
	r.left -= n
	return n, err
}

// readDocument reads what gateway sessions export --format json writes, and what it wrote
// in earlier versions.
func readDocument(in io.Reader, key conversation.Key, now time.Time, take func(Entry) error) error {
	limited := &limitedReader{Reader: bufio.NewReaderSize(in, 64<<10)}
	d := &document{in: limited, decoder: json.NewDecoder(limited), take: take, key: key, now: now}
	err := d.read()
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file ends in the middle")
	}
	return err
}

func (d *document) read() error {
	fields, list, err := d.fields()
	if err != nil {
		return err
	}
	if list != "conversations" {
		return fmt.Errorf("found the list %q, allowed: conversations", list)
	}
	if fields["version"] != nil {
		head, err := json.Marshal(fields)
		if err != nil {
			return err
		}
		session, err := transcript.ParseSession(head)
		if err == nil {
			err = checkKey(session.Key)
		}
		if err != nil {
			return err
		}
		d.session = &session
	}
	for d.decoder.More() {
		d.n++
		if err := d.conversation(); err != nil {
			return fmt.Errorf("conversation %d: %w", d.n, err)
		}
	}
	_, _, err = d.end()
	return err
}

// token returns the next token.
func (d *document) token() (json.Token, error) {
	d.in.left = maxRecord
	token, err := d.decoder.Token()
	if err != nil {
		return nil, inWords(err)
	}
	return token, nil
}

// value reads the next value.
func (d *document) value(into any) error {
	d.in.left = maxRecord
	return inWords(d.decoder.Decode(into))
}

// isList reports whether a field is a list of records; other lists are values.
func isList(name string) bool { return name == "conversations" || transcript.KindOfList(name) != "" }

// fields begins an object and returns its fields up to the first list, which it begins.
func (d *document) fields() (fields map[string]json.RawMessage, list string, err error) {
	token, err := d.token()
	if err == nil && token != json.Delim('{') {
		err = fmt.Errorf("found %v, allowed: {", token)
	}
	if err != nil {
		return nil, "", err
	}
	fields = map[string]json.RawMessage{}
	list, err = d.nextList(fields)
	return fields, list, err
}

// nextList reads fields up to the next list, which it begins. list is "" where the object
// ends.
func (d *document) nextList(fields map[string]json.RawMessage) (list string, err error) {
	for {
		token, err := d.token()
		if err != nil {
			return "", err
		}
		name, is := token.(string)
		switch {
		case !is: // the end
			return "", nil
		case isList(name):
			if token, err = d.token(); err == nil && token != json.Delim('[') {
				err = fmt.Errorf("%s: found %v, allowed: a list", name, token)
			}
			return name, err
		}
		var raw json.RawMessage
		if err := d.value(&raw); err != nil {
			return "", err
		}
		fields[name] = raw
	}
}

// end ends a list and reads on to the next one of its object.
func (d *document) end() (list string, fields map[string]json.RawMessage, err error) {
	if _, err := d.token(); err != nil {
		return "", nil, err
	}
	fields = map[string]json.RawMessage{}
	list, err = d.nextList(fields)
	return list, fields, err
}

func (d *document) conversation() error {
	fields, list, err := d.fields()
	if err != nil {
		return err
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	place := fmt.Sprintf("conversation %d", d.n)
	head, err := parseHead(raw)
	if d.session == nil {
		return d.earlier(place, raw, list)
	}
	if err != nil {
		return err
	}
	return takeArchived(d.take, place, *d.session, head, func() (transcript.Kind, []byte, error) {
		for list != "" && !d.decoder.More() {
			if list, _, err = d.end(); err != nil {
				return "", nil, err
			}
		}
		if list == "" {
			return "", nil, io.EOF
		}
		var raw json.RawMessage
		if err := d.value(&raw); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return "", nil, err
		}
		return transcript.KindOfList(list), raw, nil
	})
}

// earlier reads a conversation of an export of an earlier version, which has messages
// alone.
func (d *document) earlier(place string, raw []byte, list string) error {
	var head transcript.Conversation
	if err := json.Unmarshal(raw, &head); err != nil {
		return inWords(err)
	}
	entry := Entry{Place: place}
	s := source{id: head.ID, title: head.Title, created: head.CreatedAt, updated: head.UpdatedAt}
	size := 0
	for n := 1; list == "messages" && d.decoder.More(); n++ {
		var raw json.RawMessage
		if err := d.value(&raw); err != nil {
			return err
		}
		if size += len(raw); size > maxConversation {
			entry.Err, s.messages = errTooLarge, nil
		}
		if entry.Err != nil {
			continue
		}
		var m jsonMessage
		err := json.Unmarshal(raw, &m)
		var made []conversation.Message
		if err == nil {
			made, err = m.message()
		}
		if err != nil {
			entry.Err = fmt.Errorf("message %d: %w", n, inWords(err))
		}
		s.messages = append(s.messages, made...)
	}
	for list != "" {
		var err error
		if list, _, err = d.end(); err != nil {
			return err
		}
	}
	switch {
	case entry.Err != nil:
	case len(s.messages) == 0:
		entry.Err = errEmpty
	default:
		entry.Conversation = s.imported(d.key, d.now)
	}
	return d.take(entry)
}
