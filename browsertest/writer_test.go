package browsertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// holdSending makes the page's next request wait for window.release().
const holdSending = `(() => {
	const send = window.fetch;
	window.fetch = (...request) => new Promise((resolve, reject) => {
		window.release = () => { window.fetch = send; return send(...request).then(resolve, reject); };
	});
	return true;
})()`

// holdReplies makes the page wait for window.taken() after each request that the gateway has answered. When it
// has heard of the answer, window.told is true.
const holdReplies = `(() => {
	const send = window.fetch;
	window.fetch = async (...request) => {
		const answer = await send(...request);
		await new Promise((goOn) => { window.taken = goOn; });
		setTimeout(() => { window.told = true; }, 50);
		return answer;
	};
	return true;
})()`

// Who writes on while a message is on its way has the field for the next one, sees what is not
// sent yet, and is answered in order.
func TestWritingOnWhileAMessageIsSent(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	b.await("document.activeElement.id === 'text-field'")
	eval[bool](b, holdSending)
	b.do(typed("first"), typed("\r"))
	b.await("window.release && document.getElementById('text-field').value === ''")
	b.do(typed("and then"), typed("\r"))
	b.await("document.getElementById('text-field').value === ''")
	b.do(typed("begun"))
	b.await("document.querySelectorAll('#unsent > li').length === 2")
	b.awaitText("#unsent > li:last-child", "and thenSending…")
	b.shot("sending")
	eval[bool](b, "release() && true")
	b.await("!document.querySelector('#unsent > li') && document.getElementById('answer').hidden")
	b.awaitText("#messages .assistant", "To: and then")
	b.expectAsked("first|and then")
	b.await("document.getElementById('text-field').value === 'begun'")
	b.clean()
}

// What is sent off before the page has heard that the gateway has the message before follows it, and nothing is asked twice.
func TestAMessageSentOffMeanwhileFollows(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	eval[bool](b, holdReplies)
	b.say("first")
	b.answers(1)
	b.await("window.taken")
	b.do(typed("\r"))
	b.say("second")
	eval[bool](b, "(window.taken(), window.taken = null, true)")
	b.answers(2)
	b.awaitText("#messages .assistant", "To: second")
	b.await("window.taken && (window.told = false, window.taken(), true)")
	b.await("window.told && document.getElementById('text-field').value === ''")
	if n := len(g.Model.Calls()); n != 2 {
		t.Errorf("the model was asked %d times, want twice", n)
	}
	b.clean()
}

// So does an edit.
func TestAnEditSentOffMeanwhileFollows(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	eval[bool](b, holdReplies)
	b.say("one")
	b.answers(1)
	b.await("window.taken && (document.querySelector('[data-edit]').click(), !document.getElementById('editing').hidden)")
	b.say(" two")
	eval[bool](b, "(window.taken(), window.taken = null, true)")
	b.awaitText("#messages .assistant", "To: one two")
	b.await("window.taken && (window.told = false, window.taken(), true)")
	b.await("window.told && document.getElementById('editing').hidden && document.getElementById('text-field').value === ''")
	b.clean()
}

// A file that is picked while a message is on its way stays for the next one.
func TestAFilePickedWhileAMessageIsSentStays(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	eval[bool](b, holdReplies)
	b.drop("one.txt", "text/plain", "some notes")
	b.say("first")
	b.answers(1)
	b.await("window.taken")
	b.drop("two.txt", "text/plain", "other notes")
	eval[bool](b, "window.taken(), true")
	b.await("window.told")
	if got := b.text("#picked"); !strings.HasPrefix(got, "two.txt") {
		t.Errorf("picked are %q", got)
	}
	b.clean()
}

// What is written while an edit is on its way stays, behind what had been begun before the edit.
func TestWritingOnWhileAnEditIsSent(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	b.say("one")
	b.answers(1)
	b.await("document.getElementById('text-field').value === ''")
	b.do(typed("begun"))
	eval[bool](b, "document.querySelector('[data-edit]').click() || true")
	b.await("!document.getElementById('editing').hidden")
	eval[bool](b, holdReplies)
	b.say(" two")
	b.awaitText("#messages .assistant", "To: one two")
	b.await("window.taken")
	b.do(typed(" and then"))
	eval[bool](b, "window.taken(), true")
	b.await("window.told")
	b.expectField("begun and then")
	b.clean()
}

// A message that is on its way when an edit begins is not back in the field after the edit.
func TestAnEditBegunWhileAMessageIsSent(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	b.say("one")
	b.answers(1)
	b.await("document.getElementById('text-field').value === ''")
	eval[bool](b, holdSending)
	b.say("two")
	b.await("window.release")
	eval[bool](b, "document.querySelector('[data-edit]').click() || true")
	b.await("!document.getElementById('editing').hidden && document.getElementById('text-field').value === 'one'")
	eval[bool](b, "release() && true")
	b.answers(2)
	b.do(typed(kb.Escape)) // leaves the edit
	b.await("document.getElementById('editing').hidden")
	b.expectField("")
	b.clean()
}

// An edit that the gateway refuses stays below the chat with the reason, and can be taken up again
// as an edit.
func TestARefusedEditCanBeTakenUpAgain(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	b.say("one")
	b.answers(1)
	b.do(typed(kb.ArrowUp))
	b.await("document.getElementById('text-field').value === 'one'")
	eval[bool](b, refuseNext(1))
	b.do(typed(" more"), typed("\r"))
	b.awaitText("#unsent .refused", "Not now.")
	b.do(chromedp.Click("#unsent [data-restore]"))
	b.await("!document.querySelector('#unsent > li') && !document.getElementById('editing').hidden && document.getElementById('text-field').value === 'one more'")
	b.do(typed("\r"))
	b.awaitText("#messages .assistant", "To: one more")
	if n := eval[int](b, "document.querySelectorAll('#messages .user').length"); n != 1 {
		t.Errorf("the chat has %d messages of the person", n)
	}
	b.clean()
}

// A message that could not be sent is kept by the page, and sent once the gateway is back and
// the page is loaded again, also where the chat has not begun.
func TestUnsentMessageIsSentAfterAReload(t *testing.T) {
	t.Parallel()
	g := startGateway(t, says("x"))
	b := openTab(t)
	b.open(g.URL)
	b.await("document.activeElement.id === 'text-field'")
	g.Kill()
	b.say("Do not lose me")
	b.awaitText("#main", "Not sent. It is sent when the connection is back.")
	g.Start()
	b.do(chromedp.Reload())
	b.answers(1)
	b.awaitText("#messages", "Do not lose me")
	b.open(g.URL)
	b.await("document.activeElement.id === 'text-field' && document.getElementById('text-field').value === ''")
}

// What had been begun is back after an edit of the last message.
func TestAnEditReturnsWhatHadBeenBegun(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	b := openTab(t)
	b.open(g.URL)
	b.say("one")
	b.answers(1)
	b.do(chromedp.Focus("#text-field"), typed("begun"))
	eval[bool](b, "document.querySelector('[data-edit]').click() || true")
	b.await("!document.getElementById('editing').hidden && document.getElementById('text-field').value === 'one'")
	b.say(" two")
	b.awaitText("#messages .assistant", "To: one two")
	b.await("document.getElementById('text-field').value.trim() === 'begun'")
	b.clean()
}

// A double click is one click: it does not ask the model twice.
func TestADoubleClickAsksOnce(t *testing.T) {
	t.Parallel()
	g := startGateway(t, says("x"))
	b := openTab(t)
	b.open(g.URL)
	b.say("Once")
	b.answers(1)
	first := eval[string](b, "document.querySelector('#messages .assistant').id")
	eval[bool](b, "document.querySelector('.retry button').click() || true")
	eval[bool](b, "document.querySelector('.retry button')?.click() || true")
	b.await("document.querySelector('#messages .assistant') && document.querySelector('#messages .assistant').id !== '" + first + "'")
	b.say("/status")
	b.awaitText("#messages .asked", "/status")
	if n := len(g.Model.Calls()); n != 2 {
		t.Errorf("the model was asked %d times, want twice", n)
	}
}

// A tab that nobody sees keeps no connection, of which a browser has six; seen
// again, it shows what was said meanwhile.
func TestAHiddenTabCatchesUp(t *testing.T) {
	t.Parallel()
	g := startGateway(t, echo)
	one := openTab(t)
	one.open(g.URL)
	one.say("first")
	one.answers(1)
	two := one.another()
	hide := func(hidden string) {
		eval[bool](one, "Object.defineProperty(document, 'hidden', { value: "+hidden+", configurable: true }) && document.dispatchEvent(new Event('visibilitychange'))")
	}
	hide("true")
	two.say("second")
	two.answers(2)
	if got := one.text("#messages"); strings.Contains(got, "second") {
		t.Errorf("the hidden tab shows %q", got)
	}
	hide("false")
	one.answers(2)
	one.awaitText("#messages .assistant", "To: second")
	one.clean()
}

// A reload while a message is on its way neither loses nor doubles it: it was still in the field, although
// the gateway had taken it, or was gone where it had not.
func TestAReloadWhileAMessageIsOnItsWay(t *testing.T) {
	t.Parallel()
	for name, arrives := range map[string]bool{"taken": true, "not taken": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startGateway(t, echo)
			b := openTab(t)
			b.open(g.URL)
			b.await("document.activeElement.id === 'text-field'")
			eval[bool](b, fmt.Sprintf(`(() => {
				const send = window.fetch;
				window.fetch = (...request) => new Promise(() => { window.sent = true; if (%v) send(...request); });
				return true;
			})()`, arrives))
			b.say("Once and only once")
			b.await("window.sent")
			if arrives {
				b.awaitText("#messages .assistant", "To: Once")
			}
			b.do(chromedp.Reload())
			b.answers(1)
			b.await("!document.querySelector('#unsent > li')")
			b.expectField("")
			b.do(chromedp.Reload())
			b.answers(1)
			if n := len(g.Model.Calls()); n != 1 {
				t.Errorf("the model was asked %d times", n)
			}
			b.clean()
		})
	}
}

// A message that is sent when the sign-in has just ended is sent after the next one.
func TestAMessageWaitsForTheNextSignIn(t *testing.T) {
	t.Parallel()
	if chrome == nil {
		t.Skip(skipped)
	}
	g := startGatewayIn(t, t.TempDir(), "", echo)
	b := openTab(t)
	b.open(g.MustRun("token", "link"))
	b.leadsTo("What is on your mind?")
	b.await("document.readyState === 'complete'")
	b.say("Stay")
	b.answers(1)
	g.MustRun("token", "rotate")
	eval[bool](b, `fetch("/search?q=x", { headers: { Accept: "application/json" } }).then((answer) => { window.out = answer.redirected }) && true`)
	b.await("window.out")
	b.say("Do not lose me")
	b.await("document.querySelector('#unsent > li:not(.refused)')")
	b.leadsTo("The gateway's token")
	b.do(chromedp.SendKeys("#token", g.MustRun("token")), chromedp.Submit("form"))
	b.leadsTo("To: Stay")
	b.answers(2)
	b.awaitText("#messages .assistant", "To: Do not lose me")
}
