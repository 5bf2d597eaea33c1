package postgres

import (
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// connectWait is how long connecting may take, unless the URL sets another time.
const connectWait = 5 * time.Second

// IsURL reports whether a text is the URL of a database, not the path of a file.
func IsURL(text string) bool {
	return strings.HasPrefix(text, "postgres://") || strings.HasPrefix(text, "postgresql://")
}

// ParseURL returns the config for the database of a URL. Settings that the URL does not have come
// from the environment and the files that libpq reads, such as PGPASSWORD and ~/.pgpass. The error
// does not show passwords.
func ParseURL(text string) (*Config, error) {
	config, err := pgx.ParseConfig(text)
	if err != nil {
		return nil, err
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectWait
	}
	set := func(name, value string) {
		if config.RuntimeParams[name] == "" {
			config.RuntimeParams[name] = value
		}
	}
	set("application_name", "parley")
	return config, nil
}

// Redact returns a URL without its passwords, for logs and people. It returns "postgres://" for an invalid one.
func Redact(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "postgres://" // the text may hold a password anywhere
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	q := u.Query()
	q.Del("password")
	q.Del("sslpassword")
	u.RawQuery = q.Encode()
	return u.String()
}
