package gateway

import (
	"os"
	"testing"
)

// Commands that the gateway suggests name the program and the configuration like the operator did. Without the
// configuration, they would open another database.
func TestCommandsNameTheConfiguration(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"": " token link", "my.toml": " -c my.toml token link"} {
		g := &Gateway{configPath: path}
		if got := g.command("token link"); got != os.Args[0]+want {
			t.Errorf("with the configuration %q: %q", path, got)
		}
	}
}
