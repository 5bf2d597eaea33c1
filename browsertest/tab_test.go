package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"parley/internal/waittest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tab is a page in a browser that shares nothing with other tests.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	troubles []string // what the page's console calls an error, and dialogs
	requests []string // addresses that the page has asked for
	received float64  // bytes over the line
}

// openTab opens an empty tab, 1280 by 800.
func openTab(t *testing.T) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(chrome, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	return newTab(t, ctx)
}

// another opens the page of this tab in a second one of the same visitor.
func (b *tab) another() *tab {
	b.t.Helper()
	id := chromedp.FromContext(b.ctx).BrowserContextID
	ctx, end := chromedp.NewContext(chrome, chromedp.WithExistingBrowserContext(id))
	b.t.Cleanup(end)
	second := newTab(b.t, ctx)
	second.open(eval[string](b, "location.href"))
	return second
}

func newTab(t *testing.T, ctx context.Context) *tab {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 5*waittest.Patience) // for all that a test does with the tab
	t.Cleanup(cancel)
	b := &tab{t: t, ctx: ctx}
	b.do(chromedp.EmulateViewport(1280, 800))
	focused := emulation.SetFocusEmulationEnabledParams{Enabled: true} // otherwise only one of all tabs has the focus
	if _, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, focused); err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *tab) note(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.troubles = append(b.troubles, fmt.Sprintf("exception: %+v", e.ExceptionDetails))
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelInfo {
			return // it is no complaint
		}
		b.troubles = append(b.troubles, fmt.Sprintf("%s: %s", e.Entry.Level, e.Entry.Text))
	case *page.EventJavascriptDialogOpening:
		b.troubles = append(b.troubles, "dialog: "+e.Message)
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *network.EventLoadingFinished:
		b.received += e.EncodedDataLength
	}
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.fail(err)
	}
}

func (b *tab) fail(err error) {
	b.t.Helper()
	said := b.text("body")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.t.Fatalf("%v; the page says %q; troubles: %v", err, said, b.troubles)
}

func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// eval gives what an expression of JavaScript is.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits until an expression is true, also on a page that takes the place of this one meanwhile. Of a page of which a
// part has been read, an expression may fail.
func (b *tab) await(expression string) {
	b.t.Helper()
	holds := "(() => { try { return Boolean(" + expression + ") } catch { return false } })()"
	for {
		_, err := chromedp.Run(b.ctx, chromedp.Poll[bool](holds, chromedp.WithPollingTimeout(waittest.Patience)))
		if err == nil {
			return
		}
		if !isReplaced(err) {
			b.fail(fmt.Errorf("waiting for %s: %w", expression, err))
		}
	}
}

// isReplaced reports whether nothing can be asked of a page since another one takes its place.
func isReplaced(err error) bool {
	return slices.ContainsFunc([]string{"Inspected target navigated or closed", "Cannot find context with specified id", "Execution context was destroyed",
		"Cannot find default execution context", "uniqueContextId not found"}, func(words string) bool { return strings.Contains(err.Error(), words) })
}

// awaitText waits until an element holds a text.
func (b *tab) awaitText(selector, text string) {
	b.t.Helper()
	b.await(fmt.Sprintf("[...document.querySelectorAll(%s)].some((e) => e.textContent.includes(%s))", quote(selector), quote(text)))
}

// leadsTo waits until the page that was asked for, of which nothing can be
// asked while it takes the place of the one before, holds a text.
func (b *tab) leadsTo(text string) {
	b.t.Helper()
	for deadline := time.Now().Add(waittest.Patience); !strings.Contains(b.text("body"), text); b.do(chromedp.Sleep(20 * time.Millisecond)) {
		if time.Now().After(deadline) {
			b.fail(fmt.Errorf("waiting for the page with %q", text))
		}
	}
}

// expectField checks what stands in the field for messages.
func (b *tab) expectField(want string) {
	b.t.Helper()
	if got := eval[string](b, "document.getElementById('text-field').value"); got != want {
		b.t.Errorf("the field has %q, want %q", got, want)
	}
}

// expectAsked checks what the person has said in the chat: the messages in their order, with | between them.
func (b *tab) expectAsked(want string) {
	b.t.Helper()
	if got := eval[string](b, "[...document.querySelectorAll('#messages .user .bubble')].map((e) => e.textContent).join('|')"); got != want {
		b.t.Errorf("the chat reads %q, want %q", got, want)
	}
}

// text is what the first element of a selector holds.
func (b *tab) text(selector string) string {
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](fmt.Sprintf("document.querySelector(%s)?.innerText ?? ''", quote(selector))))
	if err != nil {
		return err.Error()
	}
	return text
}

// say types a text and sends it with Enter.
func (b *tab) say(text string) {
	b.t.Helper()
	b.do(chromedp.Focus("#text-field"), typed(text), typed("\r"))
}

// typed presses keys as a keyboard does: what the page takes as a command types nothing. chromedp.KeyEvent sends a key and what
// it types apart, so that Enter would leave a line break in a field that the page has emptied meanwhile.
func typed(keys string, options ...chromedp.KeyOption) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, key := range keys {
			var down *input.DispatchKeyEventParams
			for _, event := range kb.Encode(key) {
				switch event.Type {
				case kb.KeyDown:
					down = event
					continue
				case kb.KeyChar:
					down.Text, down.UnmodifiedText = event.Text, event.UnmodifiedText
					continue
				}
				for _, one := range []*input.DispatchKeyEventParams{down, event} {
					for _, option := range options {
						option(one)
					}
					if one.Modifiers&^int64(chromedp.ModifierShift) != 0 {
						one.Text, one.UnmodifiedText = "", ""
					}
					if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, *one); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

// drop drops a file on the page.
func (b *tab) drop(name, mediaType, text string) {
	b.t.Helper()
	eval[bool](b, fmt.Sprintf(`(() => {
		const data = new DataTransfer();
		data.items.add(new File([%s], %s, { type: %s }));
		document.getElementById("compose").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
		return true;
	})()`, quote(text), quote(name), quote(mediaType)))
}

// answers waits for so many answers that are complete.
func (b *tab) answers(n int) {
	b.t.Helper()
	b.await(fmt.Sprintf("document.querySelectorAll('#messages > .assistant').length === %d && document.getElementById('answer').hidden", n))
}

// shot writes a picture of the tab where pictures are wanted.
func (b *tab) shot(name string) {
	b.t.Helper()
	if *screenshots == "" {
		return
	}
	picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(*screenshots, name+".png"), picture, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// prefer sets what the system says of colours: "light" or "dark".
func (b *tab) prefer(scheme string) {
	b.t.Helper()
	params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, params); err != nil {
		b.t.Fatal(err)
	}
}

// touch makes the device one with a touch screen, without a mouse.
func (b *tab) touch() {
	b.t.Helper()
	params := emulation.SetTouchEmulationEnabledParams{Enabled: true}
	if _, err := chromedp.Call(b.ctx, emulation.SetTouchEmulationEnabled, params); err != nil {
		b.t.Fatal(err)
	}
}

// asked are the addresses that the page has asked for.
func (b *tab) asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests)
}

// loaded is how much the page has loaded, in bytes over the line.
func (b *tab) loaded() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.received
}

// clean fails the test when the page has complained of anything.
func (b *tab) clean() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.troubles) > 0 {
		b.t.Errorf("the page complains:\n%s", strings.Join(b.troubles, "\n"))
	}
}

func quote(text string) string {
	quoted, _ := json.Marshal(text) // a text always is JSON
	return string(quoted)
}
