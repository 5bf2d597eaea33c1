package cli

import "os"

// palette colours the few words that the channel itself writes.
type palette bool // whether there are colours

// newPalette honours https://no-color.org.
func newPalette() palette { return os.Getenv("NO_COLOR") == "" }

func (p palette) sgr(code, s string) string {
	if !p || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p palette) dim(s string) string    { return p.sgr("2", s) }
func (p palette) bold(s string) string   { return p.sgr("1", s) }
func (p palette) accent(s string) string { return p.sgr("1;36", s) }
func (p palette) alarm(s string) string  { return p.sgr("31", s) }
