package db

import (
	"bytes"
	"io/fs"
	"testing"
)

// All statements of a migration's file are executed, so that a part that undoes the migration would be
// executed, too.
func TestMigrationsOnlyGoUp(t *testing.T) {
	t.Parallel()
	files, err := fs.Glob(migrations, "migrations/*/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := migrations.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, mark := range []string{"+goose Down", "+goose NO TRANSACTION", "+goose ENVSUB"} {
			if bytes.Contains(text, []byte(mark)) {
				t.Errorf("%s has %q: only statements that go up are executed, in one transaction", file, mark)
			}
		}
	}
}
