package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A configuration with secrets that other users of the machine can read is named with its mode, its secret
// keys, and the command that changes the mode.
func TestExposedNamesFilesWithSecretsThatOthersCanRead(t *testing.T) {
	const secrets = "[telegram]\ntoken = \"123:a-secret\"\n[http]\ntoken_file = \"http-secret\"\n"
	for name, c := range map[string]struct {
		doc                 string
		folder, doc2, file2 os.FileMode // of the folder, of config.toml, of the secret file
		want                []string    // in each sentence, in order
	}{
		"only the owner reads":          {secrets, 0o755, 0o600, 0o400, nil},
		"everybody reads config.toml":   {secrets, 0o755, 0o644, 0o600, []string{"config.toml holds telegram.token, and its mode 0644 lets other users of this machine read it: run chmod 600 "}},
		"the group reads config.toml":   {secrets, 0o755, 0o640, 0o600, []string{"config.toml holds telegram.token, and its mode 0640"}},
		"everybody reads a secret file": {secrets, 0o755, 0o600, 0o604, []string{"http-secret holds http.token, and its mode 0604"}},
		"both":                          {secrets, 0o755, 0o666, 0o666, []string{"config.toml holds telegram.token", "http-secret holds http.token"}},
		"nobody else enters the folder": {secrets, 0o700, 0o644, 0o644, nil},
		"no secret in config.toml":      {"[http]\ntoken_file = \"http-secret\"\n", 0o755, 0o644, 0o600, nil},
		"a password in an address":      {"[llm]\nbase_url = \"https://me:a-secret@model.example/v1\"\n", 0o755, 0o644, 0o600, []string{"config.toml holds llm.base_url"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := enterable(t)
			path, secret := filepath.Join(dir, DefaultPath), filepath.Join(dir, "http-secret")
			write(t, path, c.doc)
			write(t, secret, "a-secret-of-the-server")
			for file, mode := range map[string]os.FileMode{path: c.doc2, secret: c.file2, dir: c.folder} {
				if err := os.Chmod(file, mode); err != nil {
					t.Fatal(err)
				}
			}
			cfg, origins, err := LoadWithOrigins(path, noEnv)
			if err != nil {
				t.Fatal(err)
			}
			got := cfg.Exposed(origins)
			if !slices.EqualFunc(got, c.want, strings.Contains) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if strings.Contains(strings.Join(got, ""), "a-secret") {
				t.Errorf("a secret is told: %q", got)
			}
		})
	}
}

// enterable returns a temporary folder that other users may enter.
func enterable(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "parley-config")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
