package config

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
)

// Exposed returns a sentence for each file that holds a secret of the
// configuration and that other users of this machine can read.
func (c Config) Exposed(origins Origins) []string {
	holds := map[string][]string{} // the keys by file
	for _, m := range leaves(reflect.ValueOf(c), "") {
		file := origins[m.path].File
		hasPassword := m.value.Kind() == reflect.String && hidePassword(m.value.String()) != m.value.String()
		if file != "" && (m.isSecret() || m.isSecrets() || hasPassword) {
			holds[file] = append(holds[file], m.path)
		}
	}
	var sentences []string
	for _, file := range slices.Sorted(maps.Keys(holds)) {
		mode, exposed := exposedMode(file)
		if exposed {
			sentences = append(sentences, fmt.Sprintf("%s holds %s, and its mode %04o lets other users of this machine read it: run chmod 600 %s",
				file, strings.Join(holds[file], ", "), mode, file))
		}
	}
	return sentences
}

// exposedMode returns the mode of a file and reports whether users other than
// its owner can read it: those of its group, or all. A file of another owner
// that this process itself reads through its group is meant to be so.
func exposedMode(file string) (fs.FileMode, bool) {
	file, err := filepath.EvalSymlinks(file)
	if err != nil {
		return 0, false
	}
	file, err = filepath.Abs(file)
	if err != nil {
		return 0, false
	}
	info, err := os.Stat(file)
	if err != nil {
		return 0, false
	}
	const groupRead, groupEnter, othersRead, othersEnter = 0o040, 0o010, 0o004, 0o001
	group, others := info.Mode()&groupRead != 0 && isOurs(info), info.Mode()&othersRead != 0
	for dir := filepath.Dir(file); group || others; dir = filepath.Dir(dir) {
		folder, err := os.Stat(dir)
		if err != nil {
			break // a folder that can't be examined may be open to others
		}
		others = others && folder.Mode()&othersEnter != 0
		group = group && folder.Mode()&(groupEnter|othersEnter) != 0
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return info.Mode().Perm(), group || others
}

// isOurs reports whether a file belongs to the user of this process.
func isOurs(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
