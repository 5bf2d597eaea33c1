package faulttest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/channels/telegram/telegramtest"
	"parley/conversation/storetest"
	"parley/gateway/gatewaytest"
)

// newStoredWorld returns a world whose gateways run on a storage, and serve HTTP.
func newStoredWorld(t *testing.T, s settings) (*world, *storage) {
	t.Helper()
	storetest.NeedsSQLite(t)
	s.database = filepath.Join(t.TempDir(), "conversations.db")
	w := newWorld(t, s)
	w.gw.Configure(strings.Replace(w.config(s), `listen = ""`, `listen = "127.0.0.1:0"`, 1))
	return w, w.watchStorage()
}

// TestPowerFailsAtRandom fails the power before random writes and syncs, while twenty people write. Half of the time only what was
// synced is left, else also some of the other sectors. In the end each message is answered once, and each file is kept. A reply
// may come again if the power failed before its mark was synced.
func TestPowerFailsAtRandom(t *testing.T) {
	t.Parallel()
	const perWorld = 100 // a database that has become large takes long to copy
	cuts, seed := fromEnv(t, "FAULT_POWER", 20), fromEnv(t, "FAULT_SEED", time.Now().UnixNano())
	t.Logf("FAULT_POWER=%d FAULT_SEED=%d", cuts, seed)
	for name, newPlatform := range map[string]func(*world) platform{"telegram": newTelegram, "discord": newDiscord} {
		for left := cuts / 2; left > 0; left -= perWorld {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w, disk := newStoredWorld(t, settings{platform: newPlatform})
				failPowerAtRandom(w, disk, min(left, perWorld), seed+left)
			})
		}
	}
}

func failPowerAtRandom(w *world, disk *storage, cuts, seed int64) {
	random := rand.New(rand.NewPCG(uint64(seed), 4))
	w.model.Quiet()
	w.answerEverybodyOnce()
	token, err := os.ReadFile(filepath.Join(disk.folder, "http-token"))
	w.must(err)
	w.model.Reply(w.answerUnderLoad)
	replies := w.recordReplies()
	quiet := w.talk(rand.New(rand.NewPCG(uint64(seed), 1)))
	defer quiet()

	dueAt := map[int][]string{} // by process: the replies that were due after it
	var files [][]byte
	for range cuts {
		if w.telegram != nil && random.IntN(3) == 0 {
			files = append(files, w.sendFile(len(files)))
		}
		disk.strikeAt(writesUntil(random))
		disk.awaitStrike(w.start())
		w.awaitClosedConnections()
		var torn *rand.Rand
		if random.IntN(2) == 0 {
			torn = random
		}
		disk.failPower(torn)
		dueAt[w.process] = w.dueNow()
	}
	quiet()
	p := w.startServing()
	w.awaitStored()
	w.awaitAllAnswered()
	for n := range files {
		w.awaitAnswer(fileChat, fmt.Sprintf("file%d", n))
	}
	p.Stop()

	w.expectClean()
	w.expectDoublesOnlyFrom(dueAt, slices.DeleteFunc(replies(), func(r reply) bool { return r.chat == fileChat }))
	for chat := range w.said {
		if !w.platform.repeats(chat) {
			w.expectEachAnsweredOnce(chat)
		}
	}
	w.expectFiles(files)
	if now, err := os.ReadFile(filepath.Join(disk.folder, "http-token")); err != nil || string(now) != string(token) {
		w.t.Errorf("the token has changed: %v", err)
	}
}

// writesUntil returns before how many writes of a process the power fails: as often in the first ten as in a hundred or a
// thousand.
func writesUntil(random *rand.Rand) int {
	return 1 + random.IntN([]int{10, 100, 1000, 5000}[random.IntN(4)])
}

// fileChat is the chat of the person who sends files.
const fileChat = loadChats + 1

// sendFile has the person send a file that is kept beside the database.
func (w *world) sendFile(n int) []byte {
	data := make([]byte, 1<<20+rand.IntN(1<<10)) // as many bytes are kept in the database
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	w.telegram.Say(telegramtest.Private(person(fileChat)), person(fileChat), fmt.Sprintf("file%d", n), telegramtest.WithDocument("plan.bin", "application/octet-stream", data))
	return data
}

// expectFiles checks that exactly these files are kept, each in the database's folder.
func (w *world) expectFiles(want [][]byte) {
	w.t.Helper()
	db := openSQLite(w.t, w.gw.Database)
	defer db.Close()
	var hashes []string
	for _, data := range want {
		hash := sha256.Sum256(data)
		hashes = append(hashes, hex.EncodeToString(hash[:]))
	}
	if kept := column(w.t, db, `SELECT b.hash FROM blobs b JOIN files f ON f.blob_id = b.id JOIN messages m ON m.id = f.message_id ORDER BY b.hash`); !slices.Equal(kept, slices.Sorted(slices.Values(hashes))) {
		w.t.Errorf("%d files are kept, want %d", len(kept), len(want))
	}
	for _, path := range column(w.t, db, `SELECT path FROM blobs`) {
		data, err := os.ReadFile(filepath.Join(w.gw.Database+".files", path))
		hash := sha256.Sum256(data)
		if err != nil || !slices.Contains(hashes, hex.EncodeToString(hash[:])) {
			w.t.Errorf("a file is not kept as it was sent: %d bytes, %v", len(data), err)
		}
	}
}

// tornAt returns what decides about the sectors that a power failure leaves at a point: at every second one, none that was not synced.
func tornAt(point int) *rand.Rand {
	if point%2 == 0 {
		return nil
	}
	return rand.New(rand.NewPCG(uint64(point), 6))
}

// powerFails runs a command, fails the power before its n-th write or sync, and reports whether it made so many. If not, the command
// must have succeeded, and the power fails after its end.
func (s *storage) powerFails(point int, command ...string) bool {
	s.w.t.Helper()
	s.strikeAt(point)
	p := s.w.run(nil, command...)
	gatewaytest.Await(s.w.t, "the end of the command", p.HasEnded)
	if s.spare() {
		s.failPower(tornAt(point))
		return true
	}
	p.MustExit(0)
	s.failPower(nil)
	return false
}

// A backup during which the power fails leaves no target, or a complete one. One that has succeeded is there afterwards.
func TestPowerFailsInABackup(t *testing.T) {
	t.Parallel()
	w, disk := newStoredWorld(t, settings{})
	p := w.startServing()
	w.converse(1, "m1", "m2")
	p.Stop()
	disk.load()
	target := filepath.Join(disk.folder, "copy.db")
	disk.strikeAt(0)
	w.runCommand(0, "backup", target)
	writes := disk.written()
	everyPoint(t, 6, writes, func(point int) bool {
		_ = os.Remove(target) // it may not exist
		disk.load()
		failed := disk.powerFails(point, "backup", target)
		if _, err := os.Stat(target); err == nil || !failed {
			w.expectWhole(target, 4)
		}
		w.expectWhole(w.gw.Database, 4)
		return failed
	})
	w.startServing().Stop()
	w.expectClean()
}

// A restore during which the power fails leaves the old database or the new one, whole. One that has succeeded stays.
func TestPowerFailsInARestore(t *testing.T) {
	t.Parallel()
	w, disk := newStoredWorld(t, settings{})
	p := w.startServing()
	w.converse(1, "m1", "m2")
	copied := filepath.Join(disk.folder, "copy.db")
	w.runCommand(0, "backup", copied)
	w.converse(1, "m3", "m4")
	p.Kill()
	old := map[string][]byte{}
	for _, path := range []string{w.gw.Database, w.gw.Database + "-wal", copied} {
		bytes, err := os.ReadFile(path)
		w.must(err)
		old[path] = bytes
	}
	reset := func() {
		w.must(os.RemoveAll(disk.folder))
		w.must(os.Mkdir(disk.folder, 0o700))
		for path, bytes := range old {
			w.must(os.WriteFile(path, bytes, 0o600))
		}
		disk.load()
	}
	reset()
	disk.strikeAt(0)
	w.runCommand(0, "restore", copied)
	seen := map[string]int{}
	everyPoint(t, 8, disk.written(), func(point int) bool {
		reset()
		failed := disk.powerFails(point, "restore", copied)
		w.runCommand(0, "sessions", "list")
		db := openSQLite(t, w.gw.Database)
		defer db.Close()
		if got := column(t, db, `PRAGMA integrity_check`); !slices.Equal(got, []string{"ok"}) {
			t.Errorf("integrity_check: %v", got)
		}
		got := column(t, db, `SELECT group_concat(content, ' ') FROM messages WHERE role = 'user' ORDER BY id`)[0]
		if seen[got]++; got != "m1 m2" && (got != "m1 m2 m3 m4" || !failed) {
			t.Errorf("the database holds %q", got)
		}
		return failed
	})
	t.Logf("%v", seen)
}

// A gateway whose first start the power has interrupted starts the next time.
func TestPowerFailsAtTheFirstStart(t *testing.T) {
	t.Parallel()
	w, disk := newStoredWorld(t, settings{})
	start := func(point int) (failed bool) {
		w.must(os.RemoveAll(disk.folder))
		w.must(os.Mkdir(disk.folder, 0o700))
		disk.load()
		disk.strikeAt(point)
		before, p := w.platform.connections(), w.start()
		gatewaytest.Await(t, "the start", func() bool { return p.HasEnded() || w.platform.connections() > before })
		if failed = disk.spare(); failed {
			p.Kill()
			disk.failPower(tornAt(point))
			p = w.startServing()
		}
		p.Stop()
		w.expectWhole(w.gw.Database, 0)
		return failed
	}
	start(0)
	everyPoint(t, 6, disk.written(), start)
}

// A power failure undoes what was not synced: on a disk that ignores syncs, the storage loses a message that was answered.
func TestStorageLosesWhatIsNotSynced(t *testing.T) {
	t.Parallel()
	for ignoresSyncs, want := range map[bool]int{false: 1, true: 0} {
		t.Run(fmt.Sprintf("ignores syncs %t", ignoresSyncs), func(t *testing.T) {
			t.Parallel()
			w, disk := newStoredWorld(t, settings{})
			w.startServing().Stop()
			disk.load()
			disk.ignoresSyncs = ignoresSyncs
			p := w.startServing()
			w.say(1, "m1")
			w.awaitAnswer(1, "m1")
			p.Kill()
			disk.failPower(nil)
			if n := w.stored(); n != want {
				t.Errorf("%d messages are left, want %d", n, want)
			}
		})
	}
}
