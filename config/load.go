package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// DefaultPath is the configuration file that is read when none is named.
const DefaultPath = "config.toml"

// maxFile is more than any configuration has; what is larger is some other
// file named by mistake.
const maxFile = 1 << 20

// load fills the configuration struct that into points to, which holds the
// defaults, from the file at path and from the environment. With an empty path
// it reads DefaultPath, if there is one. The error is Problems, all of them at
// once, or says why the file could not be read. What is set is noted in origins.
func load(path string, into any, getenv func(string) string, origins Origins) error {
	optional := path == ""
	if optional {
		path = DefaultPath
	}
	doc, err := readFile(path)
	if optional && errors.Is(err, fs.ErrNotExist) {
		return decode(into, nil, path, getenv, origins)
	}
	if err != nil {
		return fmt.Errorf("can't read the configuration %s: %w", path, withoutPath(err))
	}
	root, err := parse(doc)
	if p := (Problem{}); errors.As(err, &p) {
		p.File = path
		return Problems{p}
	} else if err != nil {
		return fmt.Errorf("can't read the configuration %s: %w", path, err)
	}
	return decode(into, root, path, getenv, origins)
}

func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	doc, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(doc) > maxFile {
		err = errors.New("it is larger than 1 MiB")
	}
	return string(doc), err
}
