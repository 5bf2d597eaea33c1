package api_test

import (
	"strings"
	"testing"

	"parley/gateway/gatewaytest"
)

func TestRemindersAreSetListedAndDeleted(t *testing.T) {
	t.Parallel()
	g := start(t)
	const path = "/api/v1/sessions/api:task/reminders"
	const daily = `{"text":"Look at the build.","at":"2033-05-02T09:00","every":"FREQ=DAILY","timezone":"Europe/Berlin"}`
	r := g.do("POST", path, daily, "Idempotency-Key: wake")
	if r.status != 201 || r.object["id"] != 1.0 || r.object["next"] != "2033-05-02T09:00:00+02:00" || r.object["every"] != "FREQ=DAILY" {
		t.Fatalf("set: %d: %s", r.status, r.text)
	}
	if again := g.do("POST", path, daily, "Idempotency-Key: wake"); again.text != r.text {
		t.Errorf("set again with its key: %d: %s", again.status, again.text)
	}
	// Some clients quote the key, as its standard says; everywhere else that is the same key.
	if again := g.do("POST", path, daily, `Idempotency-Key: "wake"`); again.text != r.text {
		t.Errorf("set again with its key in quotes: %d: %s", again.status, again.text)
	}
	// Another reminder with the key was answered with the first one: its program believed that it was set.
	for _, other := range []string{
		strings.Replace(daily, "build", "tests", 1), strings.Replace(daily, "09:00", "10:00", 1), strings.Replace(daily, "Berlin", "Paris", 1),
		strings.Replace(daily, "DAILY", "WEEKLY", 1), `{"text":"Look at the build.","in_minutes":5}`,
	} {
		if again := g.do("POST", path, other, "Idempotency-Key: wake"); again.status != 422 || !strings.Contains(again.text, "Idempotency-Key") {
			t.Errorf("%s with the same key: %d: %s", other, again.status, again.text)
		}
	}
	if list, _ := g.do("GET", path, "").object["reminders"].([]any); len(list) != 1 {
		t.Errorf("listed are %v", list)
	}
	const soon = `{"text":"Look.","in_minutes":500}`
	if first, again := g.do("POST", path, soon, "Idempotency-Key: soon"), g.do("POST", path, soon, "Idempotency-Key: soon"); first.status != 201 || again.status != 201 || again.object["id"] != first.object["id"] {
		t.Errorf("set twice in so many minutes: %s, %s", first.text, again.text)
	}
	for body, want := range map[string]string{
		`{"text":"x","at":"2033-05-02T09:00","timezone":"Mars"}`:       "there is no time zone",
		`{"text":"x","at":"2020-05-02T09:00"}`:                         "is past",
		`{"text":"x","at":"2033-05-02T09:00","every":"FREQ=MINUTELY"}`: "body: ",
		`{"text":" ","in_minutes":5}`:                                  "Allowed: 1 to 2000",
		`{"text":"x"}`:                                                 "give either at or in_minutes",
		`{"text":"x","in_minutes":5,"at":"2033-05-02T09:00"}`:          "give either at or in_minutes",
	} {
		if r := g.do("POST", path, body); r.status != 422 || !strings.Contains(r.text, want) {
			t.Errorf("%s is answered with %d: %s", body, r.status, r.text)
		}
	}
	if r := g.do("POST", "/api/v1/sessions/telegram:chat:1/reminders", daily); r.status != 403 {
		t.Errorf("in a chat of people: %d: %s", r.status, r.text)
	}
	if r := g.do("DELETE", path+"/1", ""); r.status != 204 {
		t.Errorf("deleted: %d: %s", r.status, r.text)
	}
	for _, gone := range []string{path + "/1", "/api/v1/sessions/api:none/reminders/1"} {
		if r := g.do("DELETE", gone, ""); r.status != 404 {
			t.Errorf("deleted again: %d: %s", r.status, r.text)
		}
	}
	if r := g.do("GET", "/api/v1/sessions/api:none/reminders", ""); r.status != 404 {
		t.Errorf("of no session: %d: %s", r.status, r.text)
	}
}

func TestRepeatedRequestSetsNoReminderThatWasDue(t *testing.T) {
	t.Parallel()
	g := start(t)
	const path, soon = "/api/v1/sessions/api:task/reminders", `{"text":"Look.","in_minutes":0.001}`
	if r := g.do("POST", path, soon, "Idempotency-Key: soon"); r.status != 201 {
		t.Fatalf("set: %d: %s", r.status, r.text)
	}
	gatewaytest.Await(t, "the reminder to be due", func() bool {
		list, _ := g.do("GET", path, "").object["reminders"].([]any)
		return len(list) == 0
	})
	if r := g.do("POST", path, soon, "Idempotency-Key: soon"); r.status != 409 || !strings.Contains(r.text, "due already") {
		t.Errorf("set again: %d: %s", r.status, r.text)
	}
}
