package cli

import (
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// The key that follows Esc after a while is typed. The editor would take it for one with Alt, and a
// command would lose its slash. What follows at once is such a key.
func TestKeyAfterEscIsNotLost(t *testing.T) {
	for pause, want := range map[time.Duration]string{time.Second: "/stop", 0: "\x1b/stop"} {
		synctest.Test(t, func(t *testing.T) {
			terminal, typed := io.Pipe()
			keys := newKeyReader(terminal)
			go func() {
				for _, press := range []string{"\x1b", "/stop"} {
					_, _ = io.WriteString(typed, press)
					time.Sleep(pause)
				}
				typed.Close()
			}()
			var got []byte
			for buf := make([]byte, 16); !keys.over(); {
				n, _ := keys.Read(buf)
				got = append(got, buf[:n]...)
			}
			if string(got) != want+string(rune(interruptKey)) {
				t.Errorf("after %s: the editor gets %q", pause, got)
			}
		})
	}
}
