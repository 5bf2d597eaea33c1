package browsertest

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A person opens the link that the gateway prints, and is in. The link is good
// once, and its code stays in no address.
func TestLinkSignsABrowserIn(t *testing.T) {
	t.Parallel()
	if chrome == nil {
		t.Skip(skipped)
	}
	g := startGatewayIn(t, t.TempDir(), "", echo)
	b, late := openTab(t), openTab(t)
	b.open(g.URL)
	b.leadsTo("gateway token link")
	b.shot("signin")

	link := g.MustRun("token", "link")
	if !strings.HasPrefix(link, g.URL+"/signin/link#") {
		t.Fatalf("the link is %q", link)
	}
	b.open(link)
	b.leadsTo("What is on your mind?")
	b.await("document.readyState === 'complete'") // with the scripts that send what is typed
	if address := eval[string](b, "location.href"); address != g.URL+"/" {
		t.Errorf("the link leads to %s", address)
	}
	b.say("Who is in?")
	b.awaitText("#messages .assistant", "To: Who is in?")
	b.clean()

	late.open(link)
	late.leadsTo("has been used")
	late.shot("signin-used")
	if address := eval[string](late, "location.href"); strings.Contains(address, "#") {
		t.Errorf("the code stays in the address %s", address)
	}

	if height := eval[float64](b, "document.querySelector('.side-foot').offsetHeight"); height > 60 {
		t.Errorf("the links below the chats are %v pixels high: more than one line", height)
	}
	b.do(chromedp.Click(".side-foot form button"))
	b.leadsTo("The gateway's token")
	b.open(g.URL)
	b.leadsTo("The gateway's token")
}

// Whoever has a page open when the token is replaced is asked to sign in again.
func TestRotationAsksOpenPagesToSignInAgain(t *testing.T) {
	t.Parallel()
	if chrome == nil {
		t.Skip(skipped)
	}
	g := startGatewayIn(t, t.TempDir(), "", echo)
	b := openTab(t)
	b.open(g.MustRun("token", "link"))
	b.leadsTo("What is on your mind?")
	b.await("document.readyState === 'complete'") // with the scripts that send what is typed
	b.say("Stay")
	b.answers(1)
	g.MustRun("token", "rotate")
	b.leadsTo("The gateway's token")
	b.do(chromedp.SendKeys("#token", g.MustRun("token")), chromedp.Submit("form"))
	b.leadsTo("To: Stay")
}
