package config

import (
	"strings"
	"testing"
)

// A file that no session has room for was allowed by the configuration, and refused when it came.
func TestFileLargerThanItsSessionIsRefused(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		"[files]\nmax_file = 2000\n":                     "config.toml:2: files.max_file: found 2000, more than max_session with 1024, allowed: at most max_session",
		"[files]\nmax_session = 20\n":                    "config.toml:2: files.max_session: found 20, less than max_file with 50, allowed: at least max_file",
		"[files]\nmax_file = 200\nmax_session = 100\n":   "config.toml:3: files.max_session: found 100, less than max_file with 200",
		"[files]\nmax_file = 100\nmax_session = 100\n":   "",
		"[files]\nmax_file = 2000\nmax_session = 2000\n": "",
	} {
		if _, err := loadText(t, doc); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\n%v\nlacks %s", doc, err, want)
		}
	}
}

// A port alone is answered with what to write.
func TestPortInPlaceOfAnAddressIsExplained(t *testing.T) {
	t.Parallel()
	_, err := loadText(t, "[http]\nlisten = 8787\n")
	if want := `config.toml:2: http.listen: found 8787 (integer), allowed: "host:port" such as "127.0.0.1:8787", or "" for no server`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v lacks %s", err, want)
	}
}
