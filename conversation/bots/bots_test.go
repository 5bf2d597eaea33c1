package bots

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley/conversation"
	"parley/conversation/internal/db"
	"parley/conversation/pairing"
	"parley/conversation/storetest"
	"parley/internal/postgrestest"
	"parley/internal/waittest"
)

var (
	botA = conversation.Account{Channel: "telegram", ID: "7000001"}
	botB = conversation.Account{Channel: "telegram", ID: "7000002"}
)

func TestQueuesAreOfEachBot(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.ToBot(botA, 1, "one"), storetest.ToBot(botB, 1, "two"), storetest.ToBot(botB, 2, "three"), storetest.Say("cli:work", 1, "four"))
	queues, err := New(s).Queues(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, q := range queues {
		got = append(got, fmt.Sprint(conversation.Account{Channel: q.Channel, ID: q.Account}, " ", q.Waiting))
	}
	if diff := cmp.Diff([]string{"cli 1", "telegram:7000001 1", "telegram:7000002 2"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestBeginReportsWorkOfAnotherBot(t *testing.T) {
	t.Parallel()
	clock := time.UnixMilli(1_700_000_000_000)
	s := storetest.New(t, conversation.Config{Now: func() time.Time { return clock }})
	begin := func(bot conversation.Account) Takeover {
		t.Helper()
		clock = clock.Add(time.Hour)
		found, err := New(s).Begin(t.Context(), bot)
		if err == nil {
			err = New(s).SetHealth(t.Context(), bot, Serving, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if diff := cmp.Diff(Takeover{}, begin(botA)); diff != "" {
		t.Error(diff)
	}
	storetest.Accept(t, s, storetest.ToBot(botA, 1, "one"), storetest.ToBot(botB, 1, "two"))
	if found := begin(botA); found.Former != "" || len(found.Left) != 1 || found.Left[0].Account != botB.ID {
		t.Errorf("bot A finds %+v", found)
	}
	if found := begin(botB); found.Former != botA.ID || len(found.Left) != 1 || found.Left[0].Account != botA.ID || found.Left[0].Waiting != 1 {
		t.Errorf("bot B finds %+v", found)
	}
	if found := begin(botB); found.Former != "" {
		t.Errorf("bot B finds itself %+v", found)
	}
	if found := begin(botA); found.Former != botB.ID {
		t.Errorf("bot A finds %+v", found)
	}
	list, err := New(s).Health(t.Context())
	if err != nil || len(list) != 2 || list[0].Account != botA.ID || list[1].Account != botB.ID {
		t.Errorf("health, the newest first: %+v, %v", list, err)
	}
}

// When two gateways serve one bot, the failure of one is reported until it ends or is dead, also if the other one reports
// later that it serves.
func TestHealthIsKeptForEachNode(t *testing.T) {
	t.Parallel()
	url := postgrestest.Database(t)
	var stores []*conversation.Store
	for _, name := range []string{"one", "two"} {
		store, err := conversation.Open(t.Context(), conversation.Config{Path: url, Node: db.Node{Name: name, Command: "run"}})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		stores = append(stores, store)
	}
	tell := func(store *conversation.Store, state string) {
		t.Helper()
		if err := New(store).SetHealth(t.Context(), botA, state, ""); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(want ...string) {
		t.Helper()
		list, err := New(stores[1]).Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, h := range list {
			got = append(got, h.Node+" "+h.State)
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	tell(stores[0], Interrupted)
	tell(stores[1], Connecting)
	tell(stores[1], Serving)
	expect("one interrupted", "two serving")
	known, err := New(stores[1]).List(t.Context())
	if err != nil || len(known) != 1 || known[0].State != Serving {
		t.Errorf("the bots are %+v, %v", known, err)
	}

	former := stores[0].Node().ID()
	joined := make(chan struct{}, 1)
	stores[0].Node().OnChange(func() {
		if stores[0].Node().ID() != former {
			select {
			case joined <- struct{}{}:
			default:
			}
		}
	})
	postgrestest.Exec(t, url, fmt.Sprintf(`UPDATE nodes SET dead_at = 1 WHERE id = %d; DELETE FROM lanes WHERE node_id = %[1]d`, former))
	waittest.Receive(t, joined, "the node joins anew")
	expect("one interrupted", "two serving")
	if err := stores[0].Close(); err != nil {
		t.Fatal(err)
	}
	expect("two serving")
	if err := stores[1].Close(); err != nil {
		t.Fatal(err)
	}
	stores[1], err = conversation.Open(t.Context(), conversation.Config{Path: url})
	if err != nil {
		t.Fatal(err)
	}
	defer stores[1].Close()
	expect(" serving") // as the latest report says
}

func TestBotsListsWhatWaitsForEach(t *testing.T) {
	t.Parallel()
	clock := time.UnixMilli(1_700_000_000_000)
	s := storetest.New(t, conversation.Config{Now: func() time.Time { return clock }})
	for _, bot := range []conversation.Account{botA, botB} {
		if err := New(s).SetHealth(t.Context(), bot, Serving, ""); err != nil {
			t.Fatal(err)
		}
		clock = clock.Add(time.Minute)
	}
	storetest.Accept(t, s, storetest.ToBot(botA, 1, "one"), storetest.ToBot(botA, 2, "two"), storetest.ToBot(conversation.Account{Channel: "telegram", ID: "7"}, 1, "three"), storetest.Say("cli:work", 1, "four"))
	turn, err := s.Begin(t.Context(), storetest.Chat, 1000, botA)
	if err != nil {
		t.Fatal(err)
	}
	turn.Waiting = turn.Waiting[:1]
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, turn, "an answer"))
	p, _, err := pairing.New(s).Ask(t.Context(), botB, "42", "Ada")
	if err == nil {
		_, err = pairing.New(s).Approve(t.Context(), p.Code)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := New(s).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Bot{
		{Account: botB, State: Serving, Since: clock.Add(-time.Minute), LetIn: 1},
		{Account: botA, State: Serving, Since: clock.Add(-2 * time.Minute), Waiting: 1, Due: 1},
		{Account: conversation.Account{Channel: "telegram", ID: "7"}, Waiting: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReleaseBotGivesItsWorkToAnother(t *testing.T) {
	t.Parallel()
	s := storetest.New(t)
	storetest.Accept(t, s, storetest.ToBot(botA, 1, "one"))
	turn, err := s.Begin(t.Context(), storetest.Chat, 1000, botA)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Commit(t, s, storetest.Answered(storetest.Chat, turn, "an answer"))
	storetest.Accept(t, s, storetest.ToBot(botA, 2, "two"), storetest.ToBot(botB, 2, "of B"))
	released, err := New(s).Release(t.Context(), botA)
	if err != nil || released.Waiting != 1 || released.Due != 1 {
		t.Fatalf("released %+v, %v", released, err)
	}
	if turn, err := s.Begin(t.Context(), storetest.Chat, 1000, botB); err != nil || len(turn.Waiting) != 2 {
		t.Errorf("bot B begins with %+v, %v", turn.Waiting, err)
	}
	if due, err := s.Deliveries(t.Context(), conversation.DeliveryQuery{Key: storetest.Chat, Ready: true, Limit: 9, Accounts: []conversation.Account{botB}}); err != nil || len(due) != 1 || due[0].Text != "an answer" {
		t.Errorf("bot B sends %+v, %v", due, err)
	}
	if again := storetest.AcceptTexts(t, s, storetest.ToBot(botA, 1, "one"), storetest.ToBot(botA, 2, "two")); again != nil {
		t.Errorf("taken twice: %q", again)
	}
	if _, err := New(s).Release(t.Context(), conversation.Account{Channel: "telegram", ID: "7000009"}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// Queues counts waiting messages and due replies by channel, with the oldest of each. Kept replies are
// not due.
func TestQueuesCountByChannel(t *testing.T) {
	t.Parallel()
	s, clock := storetest.NewAged(t)
	if list, err := New(s).Queues(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("nothing waits: %+v, %v", list, err)
	}
	began := clock.Now()
	storetest.TurnNow(t, s, clock, storetest.Chat, 1, "one")
	clock.Pass(time.Minute)
	storetest.TurnNow(t, s, clock, storetest.Chat, 2, "two")
	storetest.Accept(t, s, storetest.SayNow(clock, "discord:dm:1", 1, "waits"))
	storetest.Accept(t, s, storetest.SayNow(clock, "discord:dm:2", 2, "waits"))
	page := storetest.SayNow(clock, "web:kitchen", 1, "kept replies are not due")
	page.Keep = true
	storetest.Accept(t, s, page)
	run := storetest.Answered(page.Key, storetest.Begin(t, s, page.Key, 1000), "kept")
	run.Replies[0].Keep = true
	storetest.Commit(t, s, run)
	list, err := New(s).Queues(t.Context())
	want := []Queue{
		{Channel: "discord", Waiting: 2, OldestWaiting: began.Add(time.Minute)},
		{Channel: "telegram", Due: 2, DueSessions: 1, OldestDue: began},
	}
	if diff := cmp.Diff(want, list); diff != "" || err != nil {
		t.Error(err, diff)
	}
}
