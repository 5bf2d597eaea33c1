package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestGeneratedSetIsRepeatable(t *testing.T) {
	t.Parallel()
	first, err := generate(400)
	if err != nil {
		t.Fatal(err)
	}
	second, err := generate(400)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second, cmp.AllowUnexported(set{}, talk{}, message{}, question{})); diff != "" {
		t.Error(diff)
	}
	for _, talk := range first.talks {
		quarters := map[int]int{}
		for _, q := range talk.questions {
			quarters[4*q.evidence[0]/len(talk.messages)]++
		}
		if len(talk.messages) != 400 || len(quarters) != 4 {
			t.Errorf("%s has %d messages, and evidence by quarter %v", talk.name, len(talk.messages), quarters)
		}
	}
}

func TestLoCoMoIsReadWithItsEvidence(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "locomo.json")
	err := os.WriteFile(path, []byte(`[{"sample_id": "conv-1", "conversation": {"speaker_a": "Ann", "speaker_b": "Bob",
		"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "Hello"}],
		"session_2_date_time": "9:05 am on 1 June, 2023", "session_2": [{"speaker": "Bob", "dia_id": "D2:1", "text": "Look!", "blip_caption": "a cat"}]},
		"qa": [{"question": "What does Bob show?", "evidence": ["D2:1; D1:1", "D2:1"], "category": 1},
			{"question": "What does Ann show?", "evidence": ["D1:1"], "category": 5},
			{"question": "Who knows?", "evidence": ["D"], "category": 4}]}]`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s, err := readLoCoMo(path)
	if err != nil {
		t.Fatal(err)
	}
	talk := s.talks[0]
	if len(talk.messages) != 2 || talk.messages[1].text != "Bob: Look! a cat" || talk.messages[1].user || talk.messages[0].at.Hour() != 13 {
		t.Errorf("messages: %+v", talk.messages)
	}
	if len(talk.questions) != 1 || !slices.Equal(talk.questions[0].evidence, []int{1, 0}) {
		t.Errorf("questions: %+v", talk.questions)
	}
}

func TestRecallIsCountedByDepthAndAge(t *testing.T) {
	t.Parallel()
	var r recall
	asked := talk{messages: make([]message, 8)}
	r.add(asked, question{evidence: []int{0, 7}}, []int{3, 7, 4, 5, 6, 0})
	r.add(asked, question{evidence: []int{1}}, nil)
	if got, want := []float64{r.mean(5), r.mean(10)}, []float64{0.25, 0.5}; !slices.Equal(got, want) {
		t.Errorf("recall at 5 and 10: %v, want %v", got, want)
	}
	if want := [quarters]fraction{{1, 2}, {}, {}, {1, 1}}; r.byAge != want {
		t.Errorf("by age: %v, want %v", r.byAge, want)
	}
}

func TestSetIsMeasured(t *testing.T) {
	t.Parallel()
	s, err := generate(200)
	if err != nil {
		t.Fatal(err)
	}
	s.talks = s.talks[:2]
	c, err := compare(t.Context(), s, "")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := c.print(&out, s, c); err != nil {
		t.Fatal(err)
	}
	if c.parley.questions != 200 || c.plain.questions != 200 || c.plain.mean(10) < 0.3 || c.parley.mean(25) == 0 {
		t.Errorf("not plausible:\n%s", &out)
	}
}
