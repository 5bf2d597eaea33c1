package conversation_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"parley/conversation/storetest"
)

// nobody is a user without rights on every Unix.
const nobody = 65534

// plainUser returns the user for tests of permissions, since root may write anywhere.
func plainUser() (uid uint32, name string) {
	if os.Geteuid() == 0 {
		return nobody, strconv.Itoa(nobody)
	}
	return 0, strconv.Itoa(os.Geteuid())
}

// If the files belong to the wrong user, the error tells the operator what to change.
func TestADatabaseThatMayNotBeWrittenIsExplained(t *testing.T) {
	t.Parallel()
	storetest.NeedsSQLite(t)
	uid, name := plainUser()
	for what, tt := range map[string]struct {
		folder, database, lock os.FileMode
		want                   []string
	}{
		"the folder":    {0o555, 0, 0, []string{"user with the id " + name, "let it write to the folder", "set database"}},
		"the lock file": {0o777, 0o666, 0o444, []string{"user with the id " + name, "test.db.lock", "set database"}},
		"the database":  {0o777, 0o444, 0o666, []string{"user with the id " + name, "let it write to the folder", "set database"}},
		"not readable":  {0o777, 0o000, 0o666, []string{"user with the id " + name, "set database"}},
	} {
		t.Run(what, func(t *testing.T) {
			dir := folderForEveryone(t)
			path := filepath.Join(dir, "test.db")
			if tt.database != tt.lock { // there was a database before
				storetest.Open(t, path).Close()
				chmod(t, path, tt.database)
				chmod(t, path+".lock", tt.lock)
			}
			chmod(t, dir, tt.folder)
			startOther(t, otherProcess{database: path, user: uid}).expect(append(tt.want, path)...)
			chmod(t, dir, 0o755)
		})
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
