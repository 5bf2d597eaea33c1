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
		struck := disk.strikeAt(writesUntil(random))
		disk.awaitStrike(w.start(), struck)
		w.awaitClosedConnections()
		var torn *rand.Rand
		if random.IntN(2) == 0 {
			torn = random
		}
		disk.failPower(torn)
		dueAt[w.process] = w.dueNow()
	}
	quiet()
	disk.strikeAt(0)
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
