package browsertest

import (
	"testing"
	"time"

	"parley/gateway/gatewaytest"
	"parley/llm"
	"parley/llm/llmtest"
)

// startGateway runs a gateway with an empty database, which asks nobody to sign in,
// until the test ends.
func startGateway(t *testing.T, answer func(llmtest.Call) llmtest.Answer) *gatewaytest.Gateway {
	t.Helper()
	return startGatewayIn(t, t.TempDir(), gatewaytest.OpenToAll, answer)
}

// startGatewayIn runs a gateway with the database of a folder, and with more
// configuration, until the test ends.
func startGatewayIn(t *testing.T, dir, config string, answer func(llmtest.Call) llmtest.Answer) *gatewaytest.Gateway {
	t.Helper()
	if chrome == nil {
		t.Skip(skipped)
	}
	g := gatewaytest.New(t, gatewaytest.Options{Dir: dir, Config: config})
	g.Model.Reply(answer)
	g.Start()
	return g
}

// says answers every call with a text.
func says(text string) func(llmtest.Call) llmtest.Answer {
	return func(llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: text} }
}

// echo answers with what was said.
func echo(c llmtest.Call) llmtest.Answer { return llmtest.Answer{Text: "To: " + c.LastUser()} }

// slowly answers with a text that comes word by word.
func slowly(text string, pieces int, pause time.Duration) llmtest.Answer {
	return llmtest.Answer{Text: text, Pieces: pieces, ChunkDelay: pause}
}

// using answers the first call with a call of a tool, and the next with a text.
func using(tool, arguments, text string) func(llmtest.Call) llmtest.Answer {
	return func(c llmtest.Call) llmtest.Answer {
		if last := c.Messages[len(c.Messages)-1]; last.Role == "tool" {
			return llmtest.Answer{Text: text}
		}
		return llmtest.Answer{ToolCalls: []llm.ToolCall{{ID: "call-1", Name: tool, Arguments: arguments}}}
	}
}
