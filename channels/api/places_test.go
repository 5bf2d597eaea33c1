package api_test

import (
	"net/http"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/places"
)

// A group of Telegram that became a supergroup has another id. Programs that ask with it got "no such session", or an empty list.
func TestKeyOfAPlaceThatHasMovedLeadsToItsSession(t *testing.T) {
	t.Parallel()
	g := start(t)
	const before, now = conversation.Key("telegram:chat:-5"), conversation.Key("telegram:chat:-1005")
	store := g.gw.Store()
	_, err := store.Append(t.Context(), before, "", conversation.Message{Role: conversation.RoleUser, Content: "hello there"})
	g.must(err)
	_, err = places.New(store).MovePlace(t.Context(), before, now, func(address string) string { return address })
	g.must(err)
	path := "/sessions/" + string(now)
	if got := g.get(path)["key"]; got != string(before) {
		t.Errorf("the session of the place is %v", got)
	}
	if got := contents(g.get(path + "/messages")); len(got) != 1 {
		t.Errorf("its messages are %q", got)
	}
	if list, _ := g.get(path + "/conversations")["conversations"].([]any); len(list) != 1 {
		t.Errorf("its conversations are %v", list)
	}
	for _, rest := range []string{"/reminders", "/approvals", "/instructions", "/export"} {
		if r := g.do("GET", "/api/v1"+path+rest, ""); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", rest, r.status, r.text)
		}
	}
	if r := g.do("POST", "/api/v1"+path+"/archive", ""); r.status != http.StatusOK || !strings.Contains(r.text, string(before)) {
		t.Errorf("archived: %d %s", r.status, r.text)
	}
	if r := g.do("DELETE", "/api/v1"+path, ""); r.object["deleted"] != 1.0 {
		t.Errorf("deleted: %d %s", r.status, r.text)
	}
	if r := g.do("GET", "/api/v1/sessions/telegram:chat:-6", ""); r.status != http.StatusNotFound {
		t.Errorf("a place without a session: %d %s", r.status, r.text)
	}
}
