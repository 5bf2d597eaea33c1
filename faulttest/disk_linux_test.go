package faulttest

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"parley/gateway/gatewaytest"
)

// smallDisk mounts a file system of a few MiB. It skips the test if that is not permitted.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("skipped: mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill leaves a disk without free space until the returned function is called.
func (w *world) fill(dir string) (makeRoom func()) {
	w.t.Helper()
	path := filepath.Join(dir, "filler")
	file, err := os.Create(path)
	w.must(err)
	defer file.Close()
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else {
			w.must(err)
		}
	}
	return func() { w.must(os.Remove(path)) }
}

// newSmallWorld returns a world whose database is on a small disk, and a gateway that has answered
// once.
func newSmallWorld(t *testing.T) (w *world, dir string, p *gatewaytest.Process) {
	t.Helper()
	dir = smallDisk(t)
	w = newWorld(t, settings{database: filepath.Join(dir, "conversations.db"), platform: newPrograms})
	p = w.startServing()
	w.say(1, "before")
	w.awaitAnswer(1, "before")
	w.awaitMarked(1)
	return w, dir, p
}

func TestDiskFullAtAccept(t *testing.T) {
	t.Parallel()
	w, dir, p := newSmallWorld(t)
	makeRoom := w.fill(dir)
	w.say(1, "m1")
	w.awaitLog("the disk is full")
	if w.platform.unstored() == 0 {
		t.Error("a message was acknowledged although it could not be stored")
	}
	w.expectReplies(1, "re before")
	makeRoom()
	w.awaitAnswer(1, "m1")
	p.Stop()
	w.expectClean()
	w.expectAnsweredOnce()
}

func TestDiskFullAtCommit(t *testing.T) {
	t.Parallel()
	w, dir, p := newSmallWorld(t)
	held := w.holdModel("m1")
	w.say(1, "m1")
	w.awaitReached("the model call", held)
	w.awaitStored()
	makeRoom := w.fill(dir)
	held.Open()
	w.awaitLog("the disk is full")
	w.expectReplies(1, "re before")
	makeRoom()
	w.awaitAnswer(1, "m1")
	p.Stop()
	w.expectClean()
	w.expectAnsweredOnce()
	if served := w.model.Served(); served != 2 {
		t.Errorf("the model was called %d times for 2 messages", served)
	}
}

func TestDiskFullAtTheMark(t *testing.T) {
	t.Parallel()
	w, dir, p := newSmallWorld(t)
	held := newGate(t)
	w.platform.onSend(nil, func(int, string) verdict {
		held.pass()
		return answered
	})
	w.say(1, "m1")
	w.awaitReached("the platform's taking of the reply", held)
	makeRoom := w.fill(dir)
	held.Open()
	w.awaitLog("the disk is full")
	makeRoom()
	w.awaitMarked(2)
	p.Stop()
	w.expectClean()
	w.expectReplies(1, "re before", "re m1")
}

// A gateway that was killed on a full disk, and finds no room for the files beside the database, waits for
// room, and then answers what waits.
func TestGatewayWaitsForRoomAtTheStart(t *testing.T) {
	t.Parallel()
	w, dir, p := newSmallWorld(t)
	w.fill(dir)
	w.say(1, "m1")
	w.awaitLog("disk full, nothing is stored until there is room")
	p.Kill()
	w.must(os.Remove(w.gw.Database + "-shm"))
	makeRoom := w.fill(dir)
	p = w.start()
	w.awaitLog("disk full, the gateway starts when there is room")
	makeRoom()
	w.awaitAnswer(1, "m1")
	p.Stop()
	w.expectClean()
	w.expectAnsweredOnce()
}

// A request that needs room is answered 507 while the disk is full, and does not log an error of its own.
func TestUploadToAFullDisk(t *testing.T) {
	t.Parallel()
	w, dir, p := newSmallWorld(t)
	upload := func(want int) {
		t.Helper()
		url := "http://" + w.platform.(programs).listen + "/api/v1/sessions/api:task/files?name=a.txt"
		answer, err := http.Post(url, "text/plain", strings.NewReader(strings.Repeat("a line\n", 300_000)))
		w.must(err)
		defer answer.Body.Close()
		if body, _ := io.ReadAll(answer.Body); answer.StatusCode != want {
			t.Errorf("an upload is answered %s, want %d: %s", answer.Status, want, body)
		}
	}
	makeRoom := w.fill(dir)
	upload(http.StatusInsufficientStorage)
	makeRoom()
	upload(http.StatusCreated)
	p.Stop()
	if log := w.gw.Log.String(); strings.Contains(log, "API request failed") {
		t.Errorf("the request logs an error: %s", log)
	}
	w.expectClean()
}

func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	w, dir, p := newSmallWorld(t)
	p.Stop()
	w.must(syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	w.say(1, "m1")
	polls := w.platform.connections()
	p = w.start()
	p.MustExit(1)
	if said := p.Stderr.String(); !strings.Contains(said, w.gw.Database) || !strings.Contains(said, "read-only") {
		t.Errorf("the gateway does not say that its database is read-only: %s", said)
	}
	if w.platform.connections() != polls {
		t.Error("a gateway that can store nothing polled")
	}
	w.must(syscall.Mount("", dir, "", syscall.MS_REMOUNT, ""))
	w.expectSettled(1, "re before", "re m1")
	w.expectClean()
}

func TestDiskFullAtBackup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings{})
	dir := smallDisk(t)
	p := w.startServing()
	w.converse(1, "m1", "m2")
	makeRoom := w.fill(dir)
	backup := w.run(nil, "backup", filepath.Join(dir, "copy.db"))
	backup.MustExit(1)
	if said := backup.Stderr.String(); !strings.Contains(said, "the disk is full") {
		t.Errorf("it says %s", said)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	makeRoom()
	w.runCommand(0, "backup", filepath.Join(dir, "copy.db"))
	w.expectWhole(filepath.Join(dir, "copy.db"), 4)
	w.converse(1, "m3")
	p.Stop()
	w.expectClean()
}

func TestDiskFullAtImport(t *testing.T) {
	t.Parallel()
	w, _, p := newSmallWorld(t)
	p.Stop()
	said := strings.Repeat("a long story ", 1<<14)
	path := filepath.Join(t.TempDir(), "chat.jsonl")
	w.must(os.WriteFile(path, []byte(strings.Repeat(`{"role":"user","content":"`+said+`"}`+"\n", 40)), 0o600))
	full := w.run(nil, "import", path)
	full.MustExit(1)
	if said := full.Stderr.String(); strings.Count(said, "the disk is full") != 1 || strings.Contains(said, "work goes on by itself") {
		t.Errorf("it says %s", said)
	}
}
