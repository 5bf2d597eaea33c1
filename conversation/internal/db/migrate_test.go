package db

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

func TestMigrationIsLogged(t *testing.T) {
	t.Parallel()
	versions, err := SchemaVersions()
	if err != nil {
		t.Fatal(err)
	}
	before, newest := versions[len(versions)-3], versions[len(versions)-1]
	path := filepath.Join(t.TempDir(), "test.db")
	if err := MakeSchema(t.Context(), path, before); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	for range 2 { // the second time there is nothing to migrate
		d, err := Open(t.Context(), Config{Path: path, Log: slog.New(slog.NewTextHandler(&said, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	versionsSaid := fmt.Sprintf("from=%d to=%d", before, newest)
	for _, line := range []string{`msg="migrating the database" ` + versionsSaid, `msg="database migrated" ` + versionsSaid + " took="} {
		if strings.Count(said.String(), line) != 1 {
			t.Errorf("the log lacks %q, or repeats it: %s", line, said.String())
		}
	}
}
