package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/gateway/gatewaytest"
)

// A program appends an agent's transcript, and finds each iteration by its metadata. The model is shown
// all but internal messages.
func TestProgramStoresAndFindsATranscript(t *testing.T) {
	t.Parallel()
	g := start(t)
	body := object{"run": false, "messages": []object{
		{"role": "system", "content": "Answer in rhymes."},
		{"role": "user", "content": "Mend the build.", "metadata": object{"agent": "coder", "iteration": 1}},
		{"role": "assistant", "content": "", "tool_calls": []object{{"id": "c1", "type": "function", "function": object{"name": "shell", "arguments": `{"cmd":"make"}`}}}},
		{"role": "tool", "tool_call_id": "c1", "name": "shell", "content": "ok"},
		{"role": "assistant", "content": "It builds.", "metadata": object{"agent": "coder", "iteration": 2, "final": true}},
		{"role": "assistant", "content": "tried twice", "internal": true},
	}}
	first, second := g.post(task, body, "Idempotency-Key: batch"), g.post(task, body, "Idempotency-Key: batch")
	if first.status != http.StatusCreated || second.status != http.StatusOK {
		t.Fatalf("%d %s, then %d %s", first.status, first.text, second.status, second.text)
	}
	if diff := cmp.Diff(first.object["messages"], second.object["messages"]); diff != "" {
		t.Error(diff)
	}
	for query, want := range map[string][]string{
		"":                                    {"user: Mend the build.", "assistant: It builds."},
		"view=talk&limit=3":                   {"assistant: ", "tool: ok", "assistant: It builds."},
		"view=all&metadata.agent=coder":       {"user: Mend the build.", "assistant: It builds."},
		"metadata.final=true":                 {"assistant: It builds."},
		"metadata.iteration=1":                {"user: Mend the build."},
		"metadata.iteration=1&metadata.agent": nil,
		"view=all&after=5":                    {"assistant: tried twice"},
		"view=all&before=3":                   {"system: Answer in rhymes.", "user: Mend the build."},
	} {
		if diff := cmp.Diff(want, contents(g.get("/sessions/"+task+"/messages?"+query))); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	g.ask(task, "And now?")
	window := strings.Join(contents(g.get("/sessions/"+task+"/messages?view=window")), "\n")
	if !strings.Contains(window, "Answer in rhymes.") || !strings.Contains(window, "tool: ok") || strings.Contains(window, "tried twice") {
		t.Errorf("the model is sent %s", window)
	}
	whole := g.get("/sessions/" + task + "/messages?view=all")
	message := whole["messages"].([]any)[2].(object)
	if diff := cmp.Diff(body["messages"].([]object)[2]["tool_calls"].([]object)[0]["id"], message["tool_calls"].([]any)[0].(object)["id"]); diff != "" {
		t.Error(diff)
	}
	for name, broken := range map[string]object{
		"a call without its result": {"run": false, "messages": []object{{"role": "assistant", "tool_calls": []object{{"id": "x", "type": "function", "function": object{"name": "n", "arguments": "{}"}}}}}},
		"another batch, same key":   {"run": false, "text": "other"},
		"one and many":              {"run": false, "text": "one", "messages": []object{{"role": "user", "content": "many"}}},
		"metadata that is a list":   {"run": false, "text": "one", "metadata": []string{"a"}},
		"an empty one":              {"run": false, "text": ""},
	} {
		if r := g.post(task, broken, "Idempotency-Key: batch"); r.status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %s", name, r.status, r.text)
		}
	}
}

// Programs can read the sessions of other channels, but not write in them.
func TestOtherChannelsAreReadOnly(t *testing.T) {
	t.Parallel()
	g := start(t)
	const key = "telegram:chat:42"
	if _, err := g.gw.Store().Append(t.Context(), key, "", conversation.Message{Role: conversation.RoleUser, Content: "hello there"}); err != nil {
		t.Fatal(err)
	}
	if got := contents(g.get("/sessions/" + key + "/messages")); !slices.Equal(got, []string{"user: hello there"}) {
		t.Errorf("%q", got)
	}
	for _, body := range []object{{"text": "I am a program"}, {"run": false, "text": "I am a program"}} {
		if r := g.post(key, body); r.status != http.StatusForbidden || !strings.Contains(r.object["detail"].(string), "telegram") {
			t.Errorf("%d %s", r.status, r.text)
		}
	}
	if r := g.do("POST", "/v1/chat/completions", `{"user":"`+key+`","messages":[{"role":"user","content":"I am a program"}]}`); r.status != http.StatusForbidden || r.object["error"] == nil {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := g.do("GET", "/api/v1/sessions/task-42", ""); r.status != http.StatusBadRequest || !strings.Contains(r.text, "api:NAME") {
		t.Errorf("a key without a channel: %d %s", r.status, r.text)
	}
	if g.model.Served() != 0 {
		t.Error("the model was asked")
	}
}

func TestSessionsAreListedPageByPage(t *testing.T) {
	t.Parallel()
	g := start(t)
	for i := range 5 {
		g.ask(fmt.Sprint("api:task-", i), fmt.Sprint("work on number ", i))
		g.do("PATCH", fmt.Sprint("/api/v1/sessions/api:task-", i), fmt.Sprintf(`{"metadata":{"odd":%t,"n":%d}}`, i%2 == 1, i))
	}
	g.do("POST", "/api/v1/sessions/api:task-1/archive", "")
	keys := func(query string) (all []string) {
		for cursor := ""; ; {
			page := g.get("/sessions?" + query + "&limit=2&cursor=" + url.QueryEscape(cursor))
			for _, s := range page["sessions"].([]any) {
				all = append(all, strings.TrimPrefix(s.(object)["key"].(string), "api:task-"))
			}
			if page["next"] == nil {
				return all
			}
			cursor = page["next"].(string)
		}
	}
	for query, want := range map[string]string{
		"":                                    "4 3 2 1 0",
		"order=age&channel=api":               "4 3 2 1 0",
		"channel=telegram":                    "",
		"metadata.odd=true":                   "3 1",
		"metadata.odd=true&metadata.n=3":      "3",
		"archived=true":                       "1",
		"archived=false":                      "4 3 2 0",
		"text=number%203":                     "3",
		"text=task-2":                         "2",
		"user=nobody":                         "",
		"metadata.n=1&archived=true":          "1",
		"metadata.%27%20OR%201=1&channel=api": "",
	} {
		if got := strings.Join(keys(query), " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	if r := g.do("GET", "/api/v1/sessions?cursor=nonsense", ""); r.status != http.StatusUnprocessableEntity {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// A program stores metadata of one conversation, changes it member by member, and finds the conversation, its runs and its
// messages by it. The next conversation begins without metadata.
func TestProgramDescribesAConversation(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.do("PATCH", "/api/v1/sessions/"+task, `{"metadata":{"repository":"shop"}}`)
	asked := g.do("POST", "/api/v1/sessions/"+task+"/messages", `{"text":"zebra one","metadata":{"agent":"planner"}}`)
	g.ask(task, "zebra two")
	id := asked.object["conversation"].(string)
	path := "/api/v1/conversations/" + id
	for _, patch := range []string{`{"metadata":{"iteration":1,"draft":true}}`, `{"metadata":{"iteration":9007199254740993,"draft":null},"title":"Planned"}`} {
		if r := g.do("PATCH", path, patch); r.status != http.StatusOK {
			t.Fatalf("%s: %d %s", patch, r.status, r.text)
		}
	}
	if r := g.do("GET", path, ""); !strings.Contains(r.text, `"metadata":{"iteration":9007199254740993}`) || !strings.Contains(r.text, "Planned") {
		t.Errorf("read: %s", r.text)
	}
	for _, bad := range []string{`{"metadata":[1]}`, `{"metadata":"x"}`, `{}`, `{"metadata":{"x":"` + strings.Repeat("y", 16<<10) + `"}}`} {
		if r := g.do("PATCH", path, bad); r.status != http.StatusUnprocessableEntity {
			t.Errorf("%.40s: %d %s", bad, r.status, r.text)
		}
	}
	g.do("POST", "/api/v1/sessions/"+task+"/reset", "")
	g.ask(task, "zebra three")
	gatewaytest.Await(t, "all messages are searched", func() bool { return len(g.get("/search?q=zebra")["hits"].([]any)) == 6 })
	for query, want := range map[string]int{
		"/conversations?metadata.iteration=9007199254740993":                          1,
		"/conversations?metadata.iteration=9007199254740993&metadata.repository=shop": 1, // the one its own, the other its session's
		"/sessions/" + task + "/conversations?metadata.repository=shop":               2,
		"/sessions/" + task + "/conversations?metadata.draft=true":                    0,
		"/conversations/" + id + "/trace?metadata.agent=planner":                      1,
		"/conversations/" + id + "/trace?metadata.agent=coder":                        0,
		"/search?q=zebra&metadata.iteration=9007199254740993":                         4,
		"/search?q=zebra&metadata.repository=shop":                                    6,
		"/search?q=zebra&metadata.agent=planner":                                      2, // of the message, and of its answer
		"/search?q=zebra&session=" + task + "&metadata.agent=planner":                 2,
		"/search?q=zebra&conversation=" + id + "&metadata.agent=coder":                0,
		"/search/conversations?q=zebra&metadata.iteration=9007199254740993":           1,
	} {
		found := g.get(query)
		for _, list := range []string{"conversations", "runs", "hits"} {
			if of, ok := found[list].([]any); ok && len(of) != want {
				t.Errorf("%s: %d %s, want %d", query, len(of), list, want)
			}
		}
	}
	if r := g.do("PATCH", path, `{"metadata":null}`); strings.Contains(r.text, "metadata") {
		t.Errorf("removed: %s", r.text)
	}
}

// Numbers in metadata stay as the program wrote them, even if another member is changed: an id of 64
// bits does not fit into a float64.
func TestNumbersInMetadataStayExact(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.do("PATCH", "/api/v1/sessions/"+task, `{"metadata":{"issue":9007199254740993,"cost":1.10}}`)
	r := g.do("PATCH", "/api/v1/sessions/"+task, `{"metadata":{"state":"open"}}`)
	if r.status != http.StatusOK || !strings.Contains(r.text, `"issue":9007199254740993`) || !strings.Contains(r.text, `"cost":1.10`) {
		t.Errorf("%d %s", r.status, r.text)
	}
	if found := g.get("/sessions?metadata.issue=9007199254740993")["sessions"].([]any); len(found) != 1 {
		t.Errorf("%d sessions are found by the number", len(found))
	}
}

// The metadata of a session is changed member by member, also by concurrent requests.
func TestMetadataIsMerged(t *testing.T) {
	t.Parallel()
	g := start(t)
	patch := func(body string) any {
		r := g.do("PATCH", "/api/v1/sessions/"+task, body)
		if r.status != http.StatusOK {
			t.Fatalf("%s: %d %s", body, r.status, r.text)
		}
		return r.object["metadata"]
	}
	patch(`{"metadata":{"state":"open","links":{"issue":7,"branch":"fix"}}}`)
	if diff := cmp.Diff(object{"state": "done", "links": object{"issue": 7.0}}, patch(`{"metadata":{"state":"done","links":{"branch":null}}}`)); diff != "" {
		t.Error(diff)
	}
	if got := patch(`{"metadata":null}`); got != nil {
		t.Errorf("%v", got)
	}
	if r := g.do("PATCH", "/api/v1/sessions/telegram:chat:1", `{"metadata":{"a":1}}`); r.status != http.StatusNotFound {
		t.Errorf("a session of another channel is made: %d %s", r.status, r.text)
	}
}

// startWithZebra starts a gateway whose session task has one conversation: the system message "Be
// brief.", and an answered question about a zebra with the Idempotency-Key "zebra". It is named
// "Zebras <b>". startWithZebra returns the conversation's ID, too.
func startWithZebra(t *testing.T) (g *gateway, id string) {
	t.Helper()
	g = start(t, "[llm.prices]\n\"test-model\" = { input = 1000000.0, output = 0.0 }")
	g.post(task, object{"run": false, "role": "system", "text": "Be brief."})
	id = g.ask(task, "where is the zebra?", "Idempotency-Key: zebra").object["conversation"].(string)
	if r := g.do("PATCH", "/api/v1/conversations/"+id, `{"title":"Zebras <b>"}`); r.object["title"] != "Zebras <b>" {
		t.Errorf("%d %s", r.status, r.text)
	}
	return g, id
}

func TestTraceHasCostsInstructionsAndNewMessages(t *testing.T) {
	t.Parallel()
	g, id := startWithZebra(t)
	trace := g.get("/conversations/" + id + "/trace")
	summary := trace["summary"].(object)
	if summary["runs"] != 1.0 || summary["cost"] != summary["prompt_tokens"] || len(trace["runs"].([]any)[0].(object)["steps"].([]any)) != 1 {
		t.Errorf("%v", trace)
	}
	traced := trace["runs"].([]any)[0].(object)
	if told := traced["instructions"]; fmt.Sprint(told) != "[Be brief.]" {
		t.Errorf("in force were %v", told)
	}
	if added := traced["added"].([]any); len(added) != 2 || added[0].(object)["content"] != "where is the zebra?" {
		t.Errorf("the run added %v", added)
	}
	if stats := g.get("/stats"); stats["usage"].([]any)[0].(object)["runs"] != 1.0 {
		t.Errorf("%v", stats)
	}
}

func TestMessagesAndConversationsAreFoundByWords(t *testing.T) {
	t.Parallel()
	g, id := startWithZebra(t)
	gatewaytest.Await(g.t, "the search finds it", func() bool {
		hits := g.get("/search?session=" + task + "&q=zebra")["hits"].([]any)
		return len(hits) == 2 && hits[0].(object)["conversation"] == id
	})
	for query, want := range map[string]int{
		"q=zebras+answ": 1, "q=zebra&channel=api": 1, "q=zebra&channel=web": 0, "q=zebra&key_prefix=api:ta": 1, "q=zebra&key_prefix=web:": 0,
		"q=zebra&metadata.team=7": 0, "q=zebra&skip=1": 0, "q=giraffe": 0,
	} {
		if found := g.get("/search/conversations?" + query)["conversations"].([]any); len(found) != want {
			t.Errorf("%s finds %v", query, found)
		}
		if hits := g.get("/search?" + query)["hits"].([]any); len(hits) > 0 && want == 0 && query != "q=zebra&skip=1" {
			t.Errorf("%s finds the messages %v", query, hits)
		}
	}
}

func TestConversationAndSessionAreExported(t *testing.T) {
	t.Parallel()
	g, id := startWithZebra(t)
	for format, want := range map[string]string{"md": "# Zebras", "json": `"where is the zebra?"`, "jsonl": `"where is the zebra?"`} {
		for _, of := range []string{"/conversations/" + id, "/sessions/" + task} {
			if r := g.do("GET", "/api/v1"+of+"/export?format="+format, ""); r.status != http.StatusOK || !strings.Contains(r.text, want) {
				t.Errorf("%s as %s: %d %s", of, format, r.status, r.text)
			}
		}
	}
}

// A reset begins a conversation that has only the system message of the one before, which is archived.
func TestResetKeepsTheSystemMessage(t *testing.T) {
	t.Parallel()
	g, id := startWithZebra(t)
	fresh := g.do("POST", "/api/v1/sessions/"+task+"/reset", `{"keep_system_message":true}`)
	if fresh.object["id"] == id || fresh.object["messages"] != 1.0 {
		t.Errorf("%d %s", fresh.status, fresh.text)
	}
	g.ask(task, "what did I ask?")
	if r := g.do("POST", "/api/v1/sessions/"+task+"/reset?keep_system_message=true", ""); r.object["messages"] != 1.0 {
		t.Errorf("asked for in the address: %d %s", r.status, r.text)
	}
	g.ask(task, "what did I ask?")
	if window := strings.Join(contents(g.get("/sessions/"+task+"/messages?view=window")), "\n"); strings.Contains(window, "zebra") || !strings.Contains(window, "Be brief.") {
		t.Errorf("after the reset the model is sent %s", window)
	}
	if got := len(g.get("/sessions/" + task + "/conversations")["conversations"].([]any)); got != 3 {
		t.Errorf("%d conversations", got)
	}
	if r := g.do("GET", "/api/v1/conversations/"+id+"?view=window", ""); r.status != http.StatusConflict {
		t.Errorf("the window of an archived conversation: %d %s", r.status, r.text)
	}
	if r := g.do("POST", "/api/v1/conversations/"+fresh.object["id"].(string)+"/archive", ""); r.object["active"] != false {
		t.Errorf("%d %s", r.status, r.text)
	}
}

func TestArchivedConversationIsResumedAndDeleted(t *testing.T) {
	t.Parallel()
	g, id := startWithZebra(t)
	one := "/api/v1/conversations/" + id
	for range 2 {
		g.do("POST", "/api/v1/sessions/"+task+"/reset", "")
		g.ask(task, "what did I ask?")
	}
	for _, key := range []string{"api:other", task, task} { // of another session, and once more when it is active
		r := g.do("POST", "/api/v1/sessions/"+key+"/conversations/"+id+"/resume", "")
		if key != task && r.status != http.StatusNotFound || key == task && r.object["active"] != true {
			t.Errorf("resumed in %s: %d %s", key, r.status, r.text)
		}
	}
	if all := contents(g.get("/sessions/" + task + "/messages")); !slices.Contains(all, "user: where is the zebra?") {
		t.Errorf("after it was resumed the session shows %q", all)
	}
	if r := g.do("DELETE", one, ""); r.object["deleted"] != 1.0 {
		t.Errorf("%d %s", r.status, r.text)
	}
	if r := g.do("GET", one, ""); r.status != http.StatusNotFound {
		t.Errorf("%d %s", r.status, r.text)
	}
	for _, r := range []reply{g.do("GET", "/api/v1/sessions/"+task+"/answers/zebra", ""), g.ask(task, "where is the zebra?", "Idempotency-Key: zebra")} {
		if r.status != http.StatusGone {
			t.Errorf("the answer to what was deleted: %d %s", r.status, r.text)
		}
	}
	if r := g.do("DELETE", "/api/v1/sessions/"+task, ""); r.object["deleted"] != 2.0 {
		t.Errorf("%d %s", r.status, r.text)
	}
}

// Requests with the key of one session return nothing of another.
func TestRequestsOfOneSessionShowNothingOfOthers(t *testing.T) {
	t.Parallel()
	g := start(t)
	keys := []string{"api:a", "api:a b", "api:a%2Fb", "api:A", "api:a:b", "api:%25", "api:_"}
	secret := func(i int) string { return fmt.Sprintf("secret%dof", i) }
	for i, key := range keys {
		key = strings.ReplaceAll(key, " ", "%20")
		if r := g.ask(key, "my word is "+secret(i), "Idempotency-Key: b"); r.object["status"] != "done" {
			t.Fatalf("%s: %d %s", key, r.status, r.text)
		}
	}
	for i, key := range keys {
		at := "/api/v1/sessions/" + strings.ReplaceAll(key, " ", "%20")
		for _, path := range []string{
			at, at + "/messages?view=all", at + "/messages?view=window", at + "/conversations", at + "/answers/b", at + "/export?format=json",
			"/api/v1/search?q=word&session=" + strings.ReplaceAll(key, " ", "%20"),
		} {
			r := g.do("GET", path, "")
			for j := range keys {
				if j != i && strings.Contains(r.text, secret(j)) {
					t.Errorf("%s tells the secret of %s", path, keys[j])
				}
			}
		}
	}
}

// A program that reads a conversation from its beginning gets every message once, page by page. With
// after=0 it got the newest page, and took that for the whole conversation.
func TestConversationIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	g := start(t)
	for _, text := range []string{"one", "two", "three", "four", "five"} {
		g.post("api:log", object{"run": false, "text": text})
	}
	for bounds, want := range map[string]string{
		"":          "user: one|user: two|user: three|user: four|user: five",
		"&before=4": "user: one|user: two|user: three",
	} {
		var read []string
		for after, more := 0, true; more; {
			page := g.get("/sessions/api:log/messages?limit=2&after=" + strconv.Itoa(after) + bounds)
			read = append(read, contents(page)...)
			list := page["messages"].([]any)
			after = int(list[len(list)-1].(object)["seq"].(float64))
			more, _ = page["more"].(bool)
		}
		if got := strings.Join(read, "|"); got != want {
			t.Errorf("with %q: %s", bounds, got)
		}
	}
	first, _ := connectMCP(t, g.overHTTP("")).call("read_messages", object{"session": "api:log", "after": 0, "limit": 2})
	if got := strings.Join(contents(first), "|"); got != "user: one|user: two" {
		t.Errorf("over MCP: %s", got)
	}
}
