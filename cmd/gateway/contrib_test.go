package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"parley/config"
)

// The configuration of the example of a cluster is one, and its compose file gives each gateway the secrets that it names.
func TestClusterExample(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, compose := read(t, "contrib/cluster/config.toml"), read(t, "contrib/cluster/compose.yaml")
	var named []string
	for _, found := range regexp.MustCompile(`/run/secrets/(\w+)`).FindAllStringSubmatch(text, -1) {
		named = append(named, found[1])
		if err := os.WriteFile(filepath.Join(dir, found[1]), []byte("a-secret-of-the-test\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(compose, "\n  "+found[1]+":\n    file: secrets/"+found[1]+"\n") || !strings.Contains(compose, "> secrets/"+found[1]+"\n") {
			t.Errorf("compose.yaml does not define the secret %s, or does not say how to make it", found[1])
		}
	}
	given := regexp.MustCompile(`(?m)^  secrets: \[(.*)\]$`).FindStringSubmatch(compose)
	if given == nil {
		t.Fatal("compose.yaml gives the gateways no secrets")
	}
	if got := strings.Split(given[1], ", "); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(named))) {
		t.Errorf("the gateways get the secrets %q, and the configuration names %q", got, named)
	}
	path := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "/run/secrets", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(path, func(string) string { return "" }); err != nil {
		t.Error(err)
	}
	for _, line := range []string{`command: ["run", "-c", "/etc/parley/config.toml"]`, "./config.toml:/etc/parley/config.toml:ro"} {
		if !strings.Contains(compose, line) {
			t.Errorf("compose.yaml lacks %s", line)
		}
	}
	if ports := regexp.MustCompile(`ports: \["127\.0\.0\.1:\d+:8787"\]`).FindAllString(compose, -1); len(ports) != 3 || strings.Count(compose, "<<: *gateway") != 3 {
		t.Errorf("compose.yaml has other gateways than three that publish a port: %q", ports)
	}
}
