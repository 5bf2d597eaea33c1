package importer

import (
	"archive/zip"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"parley/conversation"
	"parley/conversation/media"
	"parley/plaintext"
)

// ChatGPT's .zip holds the files of messages under names that begin with their IDs: at the top
// "file-ID-cat.png", "file_ID-sanitized.png" or "file_ID.dat", and so in folders such as
// dalle-generations, user-ID and CONVERSATION/audio. What a .dat file was called is in
// conversation_asset_file_names.json.
var (
	fileMember   = regexp.MustCompile(`^(file[-_][A-Za-z0-9]+)(.*)$`)
	namesOfFiles = regexp.MustCompile(`^conversation_asset_file_names(-\d+)?\.json$`)
)

// maxNames bounds the list of the names of files, in bytes.
const maxNames = 64 << 20

// exportFiles are the files of messages that an export holds, by their IDs.
type exportFiles struct {
	members map[string]*zip.File
	names   map[string]string // what they were called, where a list says so
}

func newExportFiles(archive *zip.Reader) exportFiles {
	f := exportFiles{members: map[string]*zip.File{}, names: map[string]string{}}
	for _, member := range archive.File {
		base := path.Base(member.Name)
		switch parts := fileMember.FindStringSubmatch(base); {
		case !member.Mode().IsRegular():
		case parts != nil:
			for _, id := range []string{parts[1], strings.TrimSuffix(base, path.Ext(base))} {
				if f.members[id] == nil {
					f.members[id] = member
				}
			}
		case namesOfFiles.MatchString(base):
			f.addNames(member)
		}
	}
	return f
}

// addNames reads a list of names. Without it, files are imported under others.
func (f exportFiles) addNames(member *zip.File) {
	list, err := member.Open()
	if err != nil {
		return
	}
	defer list.Close()
	var names map[string]string
	if json.NewDecoder(io.LimitReader(list, maxNames)).Decode(&names) != nil {
		return
	}
	for file, name := range names {
		f.names[strings.TrimSuffix(file, path.Ext(file))] = name
	}
}

// file returns a file by its ID as an imported message has it, to be opened with open. is
// reports whether the export holds it. kind is what it is called by without any name.
func (f exportFiles) file(id, name, kind string) (file media.File, is bool) {
	member := f.members[id]
	if member == nil {
		return media.File{}, false
	}
	name = plaintext.ShortLine(cmp.Or(name, f.names[id], nameOfMember(path.Base(member.Name), id, kind)), 100)
	source := media.Attachment{Name: name, Size: int64(min(member.UncompressedSize64, 1<<62)), Ref: id}
	return media.File{Name: name, Size: source.Size, Source: &media.Source{Attachment: source}}, true
}

// nameOfMember returns what a file is called by its name in the archive: what follows its ID
// there, or else what it is.
func nameOfMember(member, id, kind string) string {
	extension := path.Ext(member)
	rest := strings.TrimLeft(strings.TrimSuffix(strings.TrimPrefix(member, id), extension), "-_")
	if extension == ".dat" {
		extension = ""
	}
	if rest == "" || rest == "sanitized" {
		rest = kind
	}
	return rest + extension
}

// errNotInExport is the error of open for a file that the export does not hold.
var errNotInExport = errors.New("the export does not hold it")

// open opens a file by its ID.
func (f exportFiles) open(id string) (io.ReadCloser, error) {
	member := f.members[id]
	if member == nil {
		return nil, errNotInExport
	}
	return member.Open()
}

// idOfPointer returns the ID of a file: of "file-service://file-ID" and "sediment://file_ID",
// without what may follow behind "#" or "?".
func idOfPointer(pointer string) string {
	_, id, _ := strings.Cut(pointer, "://")
	if end := strings.IndexAny(id, "#?"); end >= 0 {
		id = id[:end]
	}
	return id
}

// fileOfPart returns the file that a part of a message shows, or how its text names it if the
// export does not hold it. names are those of the files that the message lists, by their IDs.
func (f exportFiles) fileOfPart(part chatGPTPart, names map[string]string) (id string, file *media.File, named string) {
	id = idOfPointer(cmp.Or(part.Pointer, part.Audio.Pointer))
	kind, _, _ := strings.Cut(part.Type, "_") // image_asset_pointer, audio_asset_pointer
	if part.Audio.Pointer != "" {
		kind = "audio"
	}
	name := names[id]
	if held, is := f.file(id, name, kind); is {
		return id, &held, ""
	}
	return id, nil, fmt.Sprintf("[%s, not imported]", plaintext.OneLine(kind+" "+cmp.Or(name, id)))
}

// filesInAnswers moves the files of tools' results, such as pictures that ChatGPT has made, to
// the answers that follow, where its page shows them. The results name them.
func filesInAnswers(messages []conversation.Message) []conversation.Message {
	var list []conversation.Message
	var made []media.File
	for _, m := range messages {
		switch {
		case m.Role == conversation.RoleTool:
			lines := []string{m.Content}
			for _, file := range m.Files {
				lines = append(lines, "[file "+file.Name+"]")
			}
			m.Content = joinAll(lines)
			made, m.Files = append(made, m.Files...), nil
		case m.Role == conversation.RoleAssistant && len(m.ToolCalls) == 0:
			made, m.Files = nil, append(made, m.Files...)
		case m.Role == conversation.RoleUser && len(made) > 0:
			list, made = append(list, answerOf(made, list)), nil
		}
		list = append(list, m)
	}
	if len(made) > 0 {
		list = append(list, answerOf(made, list))
	}
	return list
}

// answerOf returns an answer that shows files, behind the messages of a list.
func answerOf(files []media.File, list []conversation.Message) conversation.Message {
	return conversation.Message{Role: conversation.RoleAssistant, Files: files, At: list[len(list)-1].At}
}
