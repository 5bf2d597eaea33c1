package agentloop

import (
	"strings"
	"testing"
)

func TestRoomsTellWhichPromptsAreCut(t *testing.T) {
	t.Parallel()
	rooms := func(prompt string) []Room {
		return newHarness(t, func(p *Deps) { p.Config.SystemPrompt = prompt }).router.Rooms()
	}
	for prompt, cut := range map[string]bool{
		DefaultConfig().SystemPrompt:        false,
		strings.Repeat("Never lie. ", 400):  false, // 1200 tokens with a budget of 4000
		strings.Repeat("Never lie. ", 5000): true,
	} {
		if got := rooms(prompt); len(got) != 1 || got[0].IsCut() != cut || got[0].Lacks() > 0 || got[0].Budget != 4000 {
			t.Errorf("with a prompt of %d bytes: %+v", len(prompt), got)
		}
	}
}
