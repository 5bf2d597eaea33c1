package postgrestest

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// NewPooler starts PgBouncer in front of the server of a URL of this package, and returns the URL of the same database
// behind it. settings are lines of its configuration, such as "pool_mode = transaction". It ends with the test. Where
// PgBouncer is not installed, the test is skipped.
func NewPooler(t testing.TB, databaseURL string, settings ...string) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		if _, err = os.Stat("/usr/sbin/pgbouncer"); err != nil {
			t.Skip("PgBouncer is not installed; on Debian: apt-get install pgbouncer")
		}
		program = "/usr/sbin/pgbouncer"
	}
	target, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{}
	if os.Getuid() == 0 {
		if s.account, err = unprivileged(); err != nil {
			t.Fatal(err)
		}
	}
	if s.dir, err = os.MkdirTemp("", "parley-pgbouncer-"); err == nil {
		err = s.own(s.dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(s.dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = host=%s user=parley\n[pgbouncer]\nunix_socket_dir = %s\nauth_type = any\nlogfile = %s\n%s\n",
		target.Query().Get("host"), s.dir, filepath.Join(s.dir, "log"), strings.Join(settings, "\n"))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	// It ends when the input does, however this process ends.
	cmd := s.command("/bin/sh", "-c", `"$0" -q "$1" & read -r _; kill -9 $!; rm -rf "$2"`, program, file, s.dir)
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		_ = cmd.Wait() // with the status of rm
	})
	behind := fmt.Sprintf("postgres://parley@%s?host=%s&port=6432", target.Path, url.QueryEscape(s.dir))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := pgx.Connect(t.Context(), behind)
		if err == nil {
			conn.Close(t.Context())
			return behind
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
			t.Fatalf("PgBouncer takes no connection: %v\n%s", err, log)
		}
	}
}

// PoolerSettings makes PgBouncer accept the settings that the gateway connects with, as docs/cluster.md says.
const PoolerSettings = "ignore_startup_parameters = extra_float_digits, statement_timeout, idle_in_transaction_session_timeout, tcp_user_timeout"
