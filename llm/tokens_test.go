package llm_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"parley/llm"
)

func TestCountMatchesTheTokenizer(t *testing.T) {
	t.Parallel()
	// Counts as given by https://platform.openai.com/tokenizer.
	for _, test := range []struct {
		model, text string
		want        int
	}{
		{"gpt-5-mini", "", 0},
		{"gpt-5-mini", "Hello, world!", 4},
		{"gpt-4", "Hello, world!", 4},
		{"gpt-4o", "antidisestablishmentarianism", 6},
		{"gpt-4-0613", "antidisestablishmentarianism", 6},
		{"gpt-4o", "お誕生日おめでとう", 8},
		{"gpt-4", "お誕生日おめでとう", 9},
		{"openai/gpt-3.5-turbo", "お誕生日おめでとう", 9},
		{"some-local-model", "お誕生日おめでとう", 8},
	} {
		if got := llm.NewCounter(test.model).Text(test.text); got != test.want {
			t.Errorf("%s: %q has %d tokens, want %d", test.model, test.text, got, test.want)
		}
	}
}

// The example list of the OpenAI cookbook, which the API counts as 129 tokens
// for gpt-4 and 124 for gpt-4o, with the 3 that begin the answer.
func TestMessageFraming(t *testing.T) {
	t.Parallel()
	messages := []llm.Message{
		{Role: "system", Content: "You are a helpful, pattern-following assistant that translates corporate jargon into plain English."},
		{Role: "system", Name: "example_user", Content: "New synergies will help drive top-line growth."},
		{Role: "system", Name: "example_assistant", Content: "Things working well together will increase revenue."},
		{Role: "system", Name: "example_user", Content: "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage."},
		{Role: "system", Name: "example_assistant", Content: "Let's talk later when we're less busy about how to do better."},
		{Role: "user", Content: "This late pivot means we don't have time to boil the ocean for the client deliverable."},
	}
	for model, want := range map[string]int{"gpt-4": 129, "gpt-4o": 124} {
		counter, got := llm.NewCounter(model), 3
		for _, m := range messages {
			got += counter.Message(m)
		}
		if got != want {
			t.Errorf("%s: %d tokens, want %d", model, got, want)
		}
	}
}

func TestCallsResultsAndToolsCount(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	plain := llm.Message{Role: "assistant", Content: "Let me see."}
	calling := plain
	calling.ToolCalls = []llm.ToolCall{{ID: "call_1", Name: "current_time", Arguments: `{"zone":"Europe/Vienna"}`}}
	if a, b := counter.Message(plain), counter.Message(calling); b < a+10 {
		t.Errorf("a call adds %d tokens", b-a)
	}
	if counter.Tools(nil) != 0 {
		t.Error("no tools cost something")
	}
	if n := counter.Tools([]llm.Tool{{Name: "f", Description: "Does it.", Parameters: json.RawMessage(`{"type":"object"}`)}}); n < 20 {
		t.Errorf("a tool costs %d tokens", n)
	}
}

// The window is filled by these counts, so that the count of a pasted file must be that of the model's
// server.
func TestLongTextCountsAsItsLines(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	for _, line := range []string{
		"The quick brown fox jumps over the lazy dog.\n",
		"Съешь же ещё этих мягких французских булок, да выпей чаю.\n",
		"1. func main() { println(42) }\n",
	} {
		n := 60_000 / len(line)
		if got, want := counter.Text(strings.Repeat(line, n)), n*counter.Text(line); got != want {
			t.Errorf("%d times %q has %d tokens, want %d", n, line, got, want)
		}
	}
	birthday := strings.Repeat("お誕生日おめでとう", 2000)
	if got := counter.Text(birthday); got < 16_000 || got > 16_100 {
		t.Errorf("a text without spaces has %d tokens, want 16000 and few more", got)
	}
}

// A message that is too long for any model is counted at once, and not as smaller than it is.
func TestHugeTextIsCountedByItsBytes(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	const sentence = "The quick brown fox jumps over the lazy dog. "
	known := strings.Repeat(sentence, 256<<10/len(sentence))
	rest := strings.Repeat("y z", 1<<20)
	got, most := counter.Text(known+rest), counter.Text(known)+len(rest)
	if got < most-len(sentence) || got > most+len(sentence) {
		t.Errorf("%d tokens, want about %d", got, most)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	texts := map[string]string{
		"english":  strings.Repeat("The quick brown fox jumps over the lazy dog. ", 600),
		"japanese": strings.Repeat("お誕生日おめでとうございます。", 600),
		"emoji":    strings.Repeat("👩‍👩‍👧‍👦🇦🇹", 500),
		"no words": strings.Repeat("x", 20_000),
		"spaces":   strings.Repeat(" ", 20_000),
		"lines":    strings.Repeat("\n", 20_000),
		"digits":   strings.Repeat("0123456789", 2_000),
	}
	for name, text := range texts {
		for _, budget := range []int{1, 2, 7, 100, 999, 5000} {
			head, tail := counter.Cut(text, budget)
			if !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) {
				t.Fatalf("%s, %d: head and tail are not the ends of the text", name, budget)
			}
			if !utf8.ValidString(head) || !utf8.ValidString(tail) {
				t.Errorf("%s, %d: a rune is split", name, budget)
			}
			n := counter.Text(head) + counter.Text(tail)
			if n > budget+2 {
				t.Errorf("%s, %d: the pieces have %d tokens", name, budget, n)
			}
			if whole := counter.Text(text); n < min(budget, whole)*3/4-2 {
				t.Errorf("%s, %d: the pieces have only %d tokens", name, budget, n)
			}
		}
		if head, tail := counter.Cut(text, 1_000_000); head != text || tail != "" {
			t.Errorf("%s: cut although it fits", name)
		}
		if head, tail := counter.Cut(text, 0); head != "" || tail != "" {
			t.Errorf("%s: something is left of a budget of nothing", name)
		}
	}
	short := "Twelve words that are well below the budget and so stay whole."
	if head, tail := counter.Cut(short, 20); head != short || tail != "" {
		t.Errorf("a text that fits is cut: %q, %q", head, tail)
	}
}

// Nothing that anyone sends makes the counter panic.
func TestCountOfRandomBytes(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	random := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		raw := make([]byte, random.IntN(5000))
		for i := range raw {
			raw[i] = byte(random.Uint32())
		}
		text := string(raw)
		if counter.Text(text) < 0 {
			t.Fatal("a negative count")
		}
		head, tail := counter.Cut(text, 1+random.IntN(500))
		if !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) || len(head)+len(tail) > len(text) {
			t.Fatal("head and tail are not the ends of the text")
		}
	}
}

// This test can only fail with -race.
func TestCounterIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	counter := llm.NewCounter("")
	var counting sync.WaitGroup
	for range 8 {
		counting.Go(func() {
			for range 50 {
				counter.Message(llm.Message{Role: "user", Content: "Hello, world! Grüße."})
			}
		})
	}
	counting.Wait()
}

func BenchmarkCounter(b *testing.B) {
	counter := llm.NewCounter("")
	counter.Text("load") // the vocabulary
	const sentence = "The quick brown fox jumps over the lazy dog. "
	for name, text := range map[string]string{
		"sentence":    sentence,
		"page":        strings.Repeat(sentence, 60),
		"1MiB":        strings.Repeat(sentence, 1<<20/len(sentence)),
		"1MiB-spaces": strings.Repeat(" ", 1<<20),
		"64KiB-x":     strings.Repeat("x", 64<<10),
		"64KiB-lines": strings.Repeat(" \n ", 64<<10/3),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				counter.Text(text)
			}
		})
	}
	huge := strings.Repeat(sentence, 10<<20/len(sentence))
	b.Run("cut-10MiB-to-1000", func(b *testing.B) {
		for b.Loop() {
			counter.Cut(huge, 1000)
		}
	})
}
