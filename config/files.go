package config

import (
	"fmt"

	"parley/conversation/files"
)

// Files is the [files] section. Sizes are in MiB.
type Files struct {
	// Inline is up to which size files are kept in the database itself; larger ones
	// are kept in a folder beside it. Default 1.
	Inline int64 `toml:"inline" min:"0" max:"4"`
	// MaxFile is how large a file may be that is kept. Default 50.
	MaxFile int64 `toml:"max_file" min:"1" max:"2000"`
	// MaxSession is how much the files of one session may have together. Default 1024.
	MaxSession int64 `toml:"max_session" min:"1"`
	// MaxTotal is how much all files may have together. Default 10240.
	MaxTotal int64 `toml:"max_total" min:"1"`
}

const mebibyte = 1 << 20

// defaultFiles returns what holds when the section says nothing.
func defaultFiles() Files {
	limits := files.DefaultLimits()
	return Files{limits.Inline / mebibyte, limits.MaxFile / mebibyte, limits.MaxSession / mebibyte, limits.MaxTotal / mebibyte}
}

// Check reports a file that may be larger than all files of its session together: it would never be kept.
func (f Files) Check(report func(key, found, allowed string)) {
	if f.MaxFile <= f.MaxSession {
		return
	}
	if f.MaxSession != defaultFiles().MaxSession {
		report("max_session", fmt.Sprintf("%d, less than max_file with %d", f.MaxSession, f.MaxFile), "at least max_file")
		return
	}
	report("max_file", fmt.Sprintf("%d, more than max_session with %d", f.MaxFile, f.MaxSession), "at most max_session")
}

// Limits returns the limits of what is kept.
func (f Files) Limits() files.Limits {
	return files.Limits{Inline: f.Inline * mebibyte, MaxFile: f.MaxFile * mebibyte, MaxSession: f.MaxSession * mebibyte, MaxTotal: f.MaxTotal * mebibyte}
}
