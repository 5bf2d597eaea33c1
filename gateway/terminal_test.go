package gateway

import (
	"os"
	"testing"
)

// What the gateway tells people to type works: it names the program and the configuration as they
// named them. Without its configuration, a command would open another database.
func TestCommandsNameTheConfiguration(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"": " token link", "my.toml": " -c my.toml token link"} {
		g := &Gateway{configPath: path}
		if got := g.command("token link"); got != os.Args[0]+want {
			t.Errorf("with the configuration %q: %q", path, got)
		}
	}
}
