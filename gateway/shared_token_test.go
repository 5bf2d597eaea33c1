package gateway

import (
	"strings"
	"testing"

	"parley/config"
)

// The error about a token that gateways on one database need says where the database is configured.
func TestMissingSharedTokenNamesTheDatabasesPlace(t *testing.T) {
	t.Parallel()
	err := checkSharedToken(config.Default(), "postgres://db/parley", "config.toml:3")
	if err == nil || !strings.HasPrefix(err.Error(), "config.toml:3: ") || !strings.Contains(err.Error(), "HTTP_TOKEN") {
		t.Errorf("the error is %v", err)
	}
}
