package tools

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/conversation/files"
	"parley/filecontent"
	"parley/plaintext"
)

// ReadFileName is the name of the tool ReadFile.
const ReadFileName = "read_file"

// The limits of one call.
const (
	readFilePage  = files.PageSize
	readFileLines = 20  // lines with words of the query that are shown
	readFileLine  = 400 // bytes that are shown of such a line
	readFileList  = 100 // newest files that are listed, and among which a name is looked up
	readFileQuery = 200 // bytes of a query
)

// ReadFile returns the tool by which the model reads the files that came with the
// messages of its session, page by page or by words. It shows nothing of any other
// session.
func ReadFile(kept *files.Files, content *filecontent.Reader) Tool {
	return Tool{
		Name:        ReadFileName,
		Repeatable:  true,
		ReadOnly:    true,
		Description: "Read a file that was sent in this chat: a page of it, or the lines with the words of a query. Without file: list the files.",
		Parameters: json.RawMessage(`{
			"type": "object",
			"properties": {
				"file": {"type": "string", "description": "name or number"},
				"page": {"type": "integer", "minimum": 1},
				"query": {"type": "string"}
			},
			"additionalProperties": false
		}`),
		Call: Text(func(ctx context.Context, arguments json.RawMessage) (string, error) {
			session, ok := SessionOf(ctx)
			if !ok {
				return "", errors.New("there is no chat whose files could be read")
			}
			var a readFileArguments
			if err := json.Unmarshal(arguments, &a); err != nil {
				return "", fmt.Errorf("read_file takes an object with file, page and query: %w", err)
			}
			r := fileReading{kept: kept, content: content, session: session}
			return r.call(ctx, a)
		}),
	}
}

type readFileArguments struct {
	File  string `json:"file"`
	Page  int64  `json:"page"`
	Query string `json:"query"`
}

// fileReading is one call of the tool.
type fileReading struct {
	kept    *files.Files
	content *filecontent.Reader
	session Session
}

func (r fileReading) call(ctx context.Context, a readFileArguments) (string, error) {
	list, err := r.kept.OfSession(ctx, r.session.Key, readFileList)
	if err != nil {
		return "", errors.New("the files can't be read now")
	}
	if strings.TrimSpace(a.File) == "" {
		return listFiles(list), nil
	}
	file, err := r.find(ctx, list, strings.TrimSpace(a.File))
	if err != nil {
		return "", err
	}
	content, err := r.content.Text(ctx, file)
	var problem *filecontent.Problem
	switch {
	case errors.As(err, &problem):
		return "", fmt.Errorf("%s can't be read: %s", fileTitle(file), problem.Words)
	case err != nil:
		return "", fmt.Errorf("%s can't be read now", fileTitle(file))
	}
	defer content.Close()
	if query := strings.TrimSpace(a.Query); query != "" {
		return searchFile(ctx, file, content, query[:min(len(query), readFileQuery)])
	}
	return showPage(file, content, max(a.Page, 1))
}

// find returns the file with a number or a name; of several, the newest.
func (r fileReading) find(ctx context.Context, list []files.File, name string) (files.File, error) {
	for _, file := range list {
		if strings.EqualFold(plaintext.OneLine(file.Name), name) {
			return file, nil
		}
	}
	if id, err := strconv.ParseInt(strings.TrimPrefix(name, "#"), 10, 64); err == nil {
		if file, err := r.kept.File(ctx, r.session.Key, id); err == nil && file.IsHere() {
			return file, nil
		}
	}
	for _, file := range list {
		if strings.Contains(strings.ToLower(file.Name), strings.ToLower(name)) {
			return file, nil
		}
	}
	return files.File{}, fmt.Errorf("there is no file %q in this chat\n%s", name, listFiles(list))
}

func listFiles(list []files.File) string {
	if len(list) == 0 {
		return "No files were sent in this chat."
	}
	var b strings.Builder
	b.WriteString("The files of this chat, the newest first:\n")
	for _, file := range list {
		fmt.Fprintf(&b, "%d. %s, %s, %s, %s\n", file.ID, fileTitle(file), file.MediaType, files.Size(file.Size), file.At.UTC().Format("2006-01-02 15:04"))
	}
	return b.String()
}

func fileTitle(file files.File) string {
	return cmp.Or(plaintext.OneLine(file.Name), "a file without a name")
}

// pagesOf returns how many pages a content has.
func pagesOf(content *filecontent.Content) int64 {
	return max(1, (content.Size+readFilePage-1)/readFilePage)
}

// showPage returns a page. A character that stands on two pages is shown on the first.
func showPage(file files.File, content *filecontent.Content, page int64) (string, error) {
	pages := pagesOf(content)
	if page > pages {
		return "", fmt.Errorf("%s has %d pages", fileTitle(file), pages)
	}
	text, err := content.ReadPage(page-1, readFilePage)
	if err != nil {
		return "", fmt.Errorf("%s can't be read now", fileTitle(file))
	}
	head := fmt.Sprintf("[%s, page %d of %d]\n", fileTitle(file), page, pages)
	if page < pages {
		return head + text + fmt.Sprintf("\n[goes on on page %d]", page+1), nil
	}
	return head + text + "\n[end]", nil
}

// foundLine is a line that holds words of a query.
type foundLine struct {
	page  int64
	words int
	text  string
}

// searchFile returns the lines that hold the most words of a query.
func searchFile(ctx context.Context, file files.File, content *filecontent.Content, query string) (string, error) {
	found, err := linesWith(ctx, content, 0, query, 1)
	if err != nil {
		return "", fmt.Errorf("%s can't be read now", fileTitle(file))
	}
	if len(found) == 0 {
		return fmt.Sprintf("%s has no line with %q.", fileTitle(file), query), nil
	}
	found = mostWords(found)
	slices.SortStableFunc(found, func(a, b foundLine) int { return cmp.Compare(a.page, b.page) })
	var b strings.Builder
	fmt.Fprintf(&b, "[%s, %d pages, lines with %q]\n", fileTitle(file), pagesOf(content), query)
	for _, f := range found {
		fmt.Fprintf(&b, "page %d: %s\n", f.page, f.text)
	}
	return b.String(), nil
}

// linesWith returns lines from the byte from on that hold at least so many words of a query:
// several times as many as are shown, those with the most words among them.
func linesWith(ctx context.Context, content *filecontent.Content, from int64, query string, least int) ([]foundLine, error) {
	words := strings.Fields(strings.ToLower(query))
	var found []foundLine
	before := "" // the end of what was read last, of a line that is longer than the buffer
	lines := bufio.NewReaderSize(io.NewSectionReader(content, from, content.Size-from), 4<<10)
	for at := from; ctx.Err() == nil; {
		line, err := lines.ReadSlice('\n')
		piece := before + string(line)
		text := strings.ToLower(piece)
		hits, first := 0, len(piece)
		for _, word := range words {
			start := max(0, len(before)-len(word)+1) // a word that ends in before was found there
			if i := strings.Index(text[min(start, len(text)):], word); i >= 0 {
				hits, first = hits+1, min(first, start+i)
			}
		}
		if hits >= least {
			page := (at-int64(len(before)-first))/readFilePage + 1
			found = append(found, foundLine{page, hits, shownLine(piece, first)})
			if len(found) > 10*readFileLines {
				found = mostWords(found)
			}
		}
		at += int64(len(line))
		before = ""
		if errors.Is(err, bufio.ErrBufferFull) {
			before = wholeEnd(piece, readFileQuery)
		}
		if err == io.EOF {
			break
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
	return found, ctx.Err()
}

// shownLine returns what is shown of a line with a word: its beginning, or the part around the word.
func shownLine(line string, word int) string {
	if word <= readFileLine/2 {
		return plaintext.OneLine(strings.ToValidUTF8(line[:min(len(line), readFileLine)], ""))
	}
	line = line[max(0, min(word, len(line))-readFileLine/4):] // lower case may be longer
	return "…" + plaintext.OneLine(strings.ToValidUTF8(line[:min(len(line), readFileLine)], ""))
}

// wholeEnd returns the last characters of a text, of at most so many bytes.
func wholeEnd(text string, most int) string {
	text = text[max(0, len(text)-most):]
	for text != "" && !utf8.RuneStart(text[0]) {
		text = text[1:]
	}
	return text
}

// mostWords returns the lines with the most words, and of equal ones the first.
func mostWords(found []foundLine) []foundLine {
	slices.SortStableFunc(found, func(a, b foundLine) int { return cmp.Compare(b.words, a.words) })
	return found[:min(len(found), readFileLines)]
}
