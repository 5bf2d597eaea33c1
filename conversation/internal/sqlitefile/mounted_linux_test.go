package sqlitefile

import (
	"strings"
	"syscall"
	"testing"
)

// A database that is mounted by itself, as containers do with single files,
// can't be renamed. Then nothing is replaced.
func TestReplaceLeavesAllAsItWasWhenTheDatabaseCannotBeRenamed(t *testing.T) {
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
