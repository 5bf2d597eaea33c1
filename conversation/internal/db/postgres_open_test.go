package db

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/internal/postgrestest"
)

const secretWord = "s3cret-word"

// A wrong address, a wrong password or missing rights are explained to the operator, without the password.
func TestOpeningExplainsWhatIsWrong(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Options{Password: true})
	own := server.Database(t)
	admin := postgrestest.Connect(t, own)
	for _, statement := range []string{
		`CREATE ROLE guest LOGIN PASSWORD '` + secretWord + `'`,
		`CREATE ROLE crowd LOGIN PASSWORD '` + secretWord + `' CONNECTION LIMIT 0`,
		`REVOKE CREATE ON SCHEMA public FROM PUBLIC`,
		`CREATE DATABASE ascii ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0`,
	} {
		if _, err := admin.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		url, secret, want string
	}{
		"another host":          {strings.Replace(own, url.QueryEscape(hostOf(t, own)), "%2Fnowhere", 1), "", "the server can't be reached: check the host and the port"},
		"too many connections":  {withUser(own, "crowd:"+secretWord), "", "raise its max_connections"},
		"no TLS":                {"postgres://guest@" + withoutTLS(t) + "/parley?sslmode=verify-full", "", "the server offers no TLS, which sslmode of the URL demands"},
		"another database":      {server.URL("nothing"), "", "the server has no such database: create it with `createdb`"},
		"wrong password":        {withUser(own, "guest:not-"+secretWord), "", "the server refuses this user or its password"},
		"no password":           {withUser(own, "guest"), "", "the server refuses this user or its password"},
		"wrong password file":   {withUser(own, "guest"), "not-" + secretWord, "the server refuses this user or its password"},
		"empty password file":   {withUser(own, "guest"), " \n", "is empty: write the password"},
		"no right to create":    {withUser(own, "guest:"+secretWord), "", "let this user create and write tables in it"},
		"a standby":             {own + "&default_transaction_read_only=on", "", "connect to the primary, not to a standby"},
		"another encoding":      {server.URL("ascii"), "", "has the encoding SQL_ASCII, which can't hold what people write"},
		"a port that is a word": {"postgres://guest:" + secretWord + "@localhost:port/parley", "", "open postgres://: the URL can't be read ("},
		"a raw percent sign":    {"postgres://guest:" + secretWord + "%zz@localhost/parley", "", "in its user or password is written as %40"},
	} {
		config := Config{Path: c.url, Log: slog.New(slog.DiscardHandler)}
		if c.secret != "" {
			config.Secret = writeFile(t, c.secret)
		}
		d, err := Open(t.Context(), config)
		if err == nil {
			d.Close()
			t.Errorf("%s: the database is open", name)
			continue
		}
		if text := err.Error(); !strings.Contains(text, c.want) || strings.Contains(text, secretWord) {
			t.Errorf("%s: %s", name, text)
		}
		if passes := name == "another host" || name == "too many connections"; errors.Is(err, ErrUnreachable) != passes {
			t.Errorf("%s: a later attempt may succeed: %t", name, !passes)
		}
	}
}

// withoutTLS returns the address of a server that answers a request for TLS as PostgreSQL does where ssl is off
// (https://www.postgresql.org/docs/current/protocol-flow.html, "SSL Session Encryption").
func withoutTLS(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if _, err := io.ReadFull(conn, make([]byte, 8)); err == nil {
				_, _ = conn.Write([]byte("N"))
			}
			conn.Close()
		}
	}()
	return listener.Addr().String()
}

// A file with the password may hold blanks and lines around it, as other files with secrets may.
func TestPasswordFileMayEndWithBlanks(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Options{Password: true})
	own := server.Database(t)
	if _, err := postgrestest.Connect(t, own).Exec(t.Context(), `CREATE ROLE guest LOGIN SUPERUSER PASSWORD '`+secretWord+`'`); err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), Config{Path: withUser(own, "guest"), Secret: writeFile(t, "\ufeff\n "+secretWord+" \r\n"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// The log warns of a server that can lose what it has confirmed.
func TestUnsafeServerIsWarnedOf(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d, err := Open(t.Context(), Config{Path: emptyDatabase.Database(t) + "&synchronous_commit=off", Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"runs with fsync off", "runs with synchronous_commit off"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &log)
		}
	}
}

func writeFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// withUser returns a URL of postgrestest with another user, as "NAME" or "NAME:PASSWORD".
func withUser(url, user string) string { return strings.Replace(url, "parley@", user+"@", 1) }

// hostOf returns the folder of the socket that a URL names.
func hostOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query().Get("host")
}
