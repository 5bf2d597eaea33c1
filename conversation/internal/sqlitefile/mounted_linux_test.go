package sqlitefile

import (
	"strings"
	"syscall"
	"testing"
)

// A database file that is itself a mount point, as in some containers, can't be renamed. Then nothing is
// replaced.
func TestReplaceChangesNothingWhenTheDatabaseCannotBeRenamed(t *testing.T) {
	t.Parallel()
	path, fresh := folder(t)
	if err := syscall.Mount(path, path, "", syscall.MS_BIND, ""); err != nil {
		t.Skipf("skipped: mounting needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(path, 0); err != nil {
			t.Error(err)
		}
	})
	before := files(t, path)
	if _, err := Replace(path, fresh, "", at); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Errorf("it says %v", err)
	}
	expectFiles(t, path, before)
}
