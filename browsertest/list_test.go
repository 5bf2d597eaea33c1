package browsertest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"parley/conversation"
	"parley/conversation/storetest"
	"parley/gateway/gatewaytest"
)

// seedChats makes a database with chats of one message, titled "feta 1" to "feta 240". The
// newest are of today, and each is five hours older than the one before.
func seedChats(t *testing.T, dir string) {
	t.Helper()
	store := storetest.Open(t, filepath.Join(dir, "conversations.db"), conversation.Config{})
	const count = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 240) INSERT INTO `
	storetest.Exec(t, store, count+`sessions (id, key, channel, created_at) SELECT i, 'web:chat-' || i, 'web', 0 FROM n`)
	storetest.Exec(t, store, count+`conversations (id, uuid, session_id, title, messages, created_at, updated_at)
		SELECT i, printf('%036d', i), i, 'feta ' || i, 1, 0, (unixepoch() - (i - 1) * 18000) * 1000 FROM n`)
	storetest.Exec(t, store, count+`messages (conversation_id, seq, run_id, role, content, tokens, created_at)
		SELECT i, 1, 0, 'user', 'a cheese', 9, (unixepoch() - (i - 1) * 18000) * 1000 FROM n`)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// All chats are in the list, grouped by day, and each can be renamed, pinned, archived and
// deleted there, also several at once. The search finds them as one types.
func TestTheListOfChats(t *testing.T) {
	t.Parallel()
	if chrome == nil {
		t.Skip(skipped)
	}
	dir := t.TempDir()
	seedChats(t, dir)
	g := startGatewayIn(t, dir, gatewaytest.OpenToAll, echo)
	b := openTab(t)
	b.stopClock()
	b.open(g.URL)
	b.awaitText("#chats .day", "Today")
	b.awaitText("#chats .day", "Yesterday")
	b.awaitText("#chats .day", "Previous 7 days")
	if n := eval[int](b, "document.querySelectorAll('#chats [data-name]').length"); n != 100 {
		t.Errorf("%d chats are listed at first", n)
	}
	for n := 2; n <= 3; n++ { // the reader scrolls to the end, twice
		b.await("(document.getElementById('chats').scrollTop = 1e6) && document.querySelectorAll('#chats [data-name]').length >= " + []string{"", "", "200", "240"}[n])
	}
	b.await("!document.querySelector('[data-older=open]') && document.querySelectorAll('#chats [data-name]').length === 240")

	eval[bool](b, "(document.getElementById('chats').scrollTop = 0) === 0")
	menu := b.lineMenu
	menu("feta 1", "rename")
	b.do(chromedp.SetValue("#chats li input", "Cheese for eight"), chromedp.Focus("#chats li input"), typed(kb.Enter))
	b.awaitText("#chats a", "Cheese for eight")
	menu("feta 3", "pin")
	b.awaitText("#chats [data-list=pinned] a", "feta 3")
	menu("feta 4", "archive")
	b.awaitText("#chats [data-list=archived]", "feta 4")
	if n := eval[int](b, "document.querySelectorAll('#chats [data-list=open] [data-name]').length"); n != 238 {
		t.Errorf("%d chats are listed after a change, all further pages among them", n)
	}

	menu("feta 5", "delete")
	b.awaitText("#toast", "“feta 5” was deleted.")
	b.await("![...document.querySelectorAll('#chats [data-name]:not([hidden]) a span')].some((title) => title.textContent === 'feta 5')")
	b.shot("deleted")
	b.do(chromedp.Click("#toast button"))
	b.awaitText("#chats [data-name]:not([hidden])", "feta 5")
	menu("feta 6", "select")
	b.do(chromedp.Click("#chats a[href='/chat/chat-7']"), chromedp.Click("#chats a[href='/chat/chat-8']"))
	b.awaitText("#selecting", "3 selected")
	b.shot("selecting")
	b.do(chromedp.Click("#selecting [data-do=delete]"))
	b.awaitText("#toast", "3 chats were deleted.")
	b.open(g.URL + "/chat/chat-9") // the next page goes on with it
	b.awaitText("#toast", "3 chats were deleted.")
	eval[bool](b, `(() => { // as if the browser had been closed for a day: they are deleted when it is opened again
		const deleting = JSON.parse(localStorage.getItem("deleting"));
		for (const one of deleting) one.at -= 86400000;
		localStorage.setItem("deleting", JSON.stringify(deleting));
		return true;
	})()`)
	b.open("about:blank")
	b.open(g.URL + "/chat/chat-9")
	b.await("document.getElementById('toast').hidden && !document.querySelector(\"#chats a[href='/chat/chat-7']\")")
	b.do(chromedp.Reload())
	b.await("document.querySelector(\"#chats a[href='/chat/chat-9'][aria-current]\") && !document.querySelector(\"#chats a[href='/chat/chat-7']\")")

	b.do(chromedp.Focus(".side .find input"), typed("feta 142"))
	b.await("document.querySelector('#found-chats .found a')?.getAttribute('href') === '/chat/chat-142'")
	b.awaitText("#found-count[role=status]", "More than 20 chats were found.") // for a screen reader
	b.shot("search-as-typed")
	b.do(typed(kb.Escape))
	b.await("document.getElementById('found-count').textContent === '' && document.getElementById('found-chats').hidden && !document.getElementById('chats').hidden")
	b.open(g.URL + "/search?q=feta")
	b.await("(document.querySelector('#results a[rel=next]')?.scrollIntoView(), document.querySelectorAll('#results .found > li').length > 60)")

	b.open(g.URL)
	b.say("A new one")
	b.await("document.querySelector('#chats [data-list=open] [data-name] a span')?.textContent.includes('A new one')")
	b.answers(1)
	b.clean()
}

// lineMenu chooses something in the menu of a chat of the list.
func (b *tab) lineMenu(title, what string) {
	b.t.Helper()
	b.openLineMenu(title)
	b.do(chromedp.Click("#line-menu [data-do=" + what + "]"))
}

func (b *tab) openLineMenu(title string) {
	b.t.Helper()
	button := `[...document.querySelectorAll('#chats [data-name]')].find((line) => line.querySelector('a span').textContent === ` + quote(title) + `)?.querySelector('.line-more')`
	b.await("document.getElementById('line-menu').hidden ? " + button + "?.click() : true")
	b.shot("line-menu")
}

// Each change in the list can be undone for a moment, also from the page that comes next, and
// with the keyboard alone.
func TestChangesInTheListAreUndone(t *testing.T) {
	t.Parallel()
	if chrome == nil {
		t.Skip(skipped)
	}
	dir := t.TempDir()
	seedChats(t, dir)
	g := startGatewayIn(t, dir, gatewaytest.OpenToAll, echo)
	b := openTab(t)
	b.stopClock()
	b.open(g.URL + "/chat/chat-1")
	undo := func(said string) {
		t.Helper()
		b.awaitText("#toast", said)
		b.shot("undo")
		b.do(chromedp.Click("#toast button"))
		b.await("document.getElementById('toast').hidden")
	}
	// listed waits until the titles in one of the lists begin so.
	listed := func(list, titles string) {
		t.Helper()
		b.await("[...document.querySelectorAll('#chats [data-list=" + list + "] [data-name]:not([hidden]) a span')].map((title) => title.textContent).join(', ').startsWith(" + quote(titles) + ")")
	}

	b.lineMenu("feta 2", "rename")
	b.do(chromedp.SetValue("#chats li input", "Cheese for eight"), chromedp.Focus("#chats li input"), typed(kb.Enter))
	listed("open", "feta 1, Cheese for eight, feta 3")
	undo("“feta 2” is now “Cheese for eight”.")
	listed("open", "feta 1, feta 2, feta 3")

	b.lineMenu("feta 3", "pin")
	listed("pinned", "feta 3")
	undo("“feta 3” was pinned.")
	listed("open", "feta 1, feta 2, feta 3, feta 4")

	b.lineMenu("feta 4", "archive")
	listed("archived", "feta 4")
	undo("“feta 4” was archived.")
	listed("open", "feta 1, feta 2, feta 3, feta 4, feta 5")

	b.lineMenu("feta 5", "select")
	b.do(chromedp.Click("#chats a[href='/chat/chat-6']"), chromedp.Click("#selecting [data-do=archive]"))
	listed("archived", "feta 5, feta 6")
	undo("2 chats were archived.")
	listed("open", "feta 1, feta 2, feta 3, feta 4, feta 5, feta 6, feta 7")

	// The chat that is on the page: the next page offers to undo it.
	b.lineMenu("feta 1", "archive")
	b.await("location.pathname === '/'")
	b.awaitText("#toast", "“feta 1” was archived.")
	listed("open", "feta 2, feta 3")
	b.do(chromedp.Click("#toast button"))
	listed("open", "feta 1, feta 2, feta 3")
	b.open(g.URL + "/chat/chat-1")
	b.await("document.querySelector(\"#chats a[href='/chat/chat-1'][aria-current]\") && document.getElementById('compose')")

	// With the keyboard the button has the focus, and Ctrl+Z presses it from elsewhere.
	b.openLineMenu("feta 2")
	b.do(typed(kb.ArrowDown), typed(kb.Enter)) // Pin
	listed("pinned", "feta 2")
	b.await("document.querySelector('#toast button') === document.activeElement")
	b.do(typed(kb.Enter))
	listed("open", "feta 1, feta 2, feta 3")
	b.await("document.activeElement.matches('#chats a[aria-current]')") // which it is given back to
	b.openLineMenu("feta 3")
	b.do(typed(kb.ArrowUp), typed(kb.Enter)) // Delete
	listed("open", "feta 1, feta 2, feta 4")
	b.do(chromedp.Focus("#chats a[aria-current]"), typed("z", chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	listed("open", "feta 1, feta 2, feta 3, feta 4")
	b.clean()
}

// What has changed in the list while a chat was being renamed is shown afterwards.
func TestTheListCatchesUpAfterARenaming(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b, two := openTab(t), openTab(t)
	b.open(g.URL)
	b.say("one")
	b.answers(1)
	b.lineMenu("one", "rename")
	b.await("document.activeElement.matches('#chats li input')")
	two.open(g.URL)
	two.say("two")
	two.answers(1)
	eval[bool](b, "(fetch(location.pathname + '/messages', { method: 'POST', headers: { Accept: 'application/json' }, body: new URLSearchParams({ text: '/status', id: 'status-1' }) }), true)")
	b.awaitText("#messages .asked", "/status") // with which the list has come too
	b.do(typed(kb.Escape))
	b.await("!document.querySelector('#chats li input')")
	if got := b.text("#chats [data-list=open]"); !strings.Contains(got, "two") {
		t.Errorf("the list has %q", got)
	}
	b.clean()
}

// stopClock slows the clock of the pages that are opened from now on down, and keeps the
// moment in which something can be undone from ending in an open page.
func (b *tab) stopClock() {
	b.t.Helper()
	params := page.AddScriptToEvaluateOnNewDocumentParams{Source: fmt.Sprintf(`(() => {
		const begin = %d;
		const now = Date.now;
		Date.now = () => begin + (now() - begin) / 1000;
		const wait = window.setTimeout;
		window.setTimeout = (f, ms, ...more) => (ms > 7000 && ms <= 8000 ? 0 : wait(f, ms, ...more));
	})()`, time.Now().UnixMilli())}
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, params); err != nil {
		b.t.Fatal(err)
	}
}

// Two changes in a row are made in their order, and the second is the one that can be undone, however late the
// replies are.
func TestChangesAreMadeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	b.say("one")
	b.answers(1)
	b.await("document.getElementById('text-field').value === ''")
	eval[bool](b, `(() => {
		const send = window.fetch;
		window.fetch = async (...request) => {
			window.sent = (window.sent ?? 0) + 1;
			const answer = await send(...request);
			if (!window.first) await new Promise((goOn) => { window.first = goOn; });
			return answer;
		};
		return true;
	})()`)
	b.openLineMenu("one")
	b.do(typed(kb.ArrowDown), typed(kb.Enter)) // Pin
	b.await("window.first && document.querySelector('#chats li[data-pinned]')")
	b.openLineMenu("one")
	b.do(typed(kb.ArrowDown), typed(kb.Enter)) // Unpin
	if n := eval[int](b, "window.sent"); n != 1 {
		t.Errorf("%d changes are under way at once", n)
	}
	eval[bool](b, "(window.first(), true)")
	b.awaitText("#toast", "“one” was unpinned.")
	b.await("!document.querySelector('#chats li[data-pinned]')")
	b.clean()
}
