package browsertest

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// command runs a command of the gateway beside the one that serves.
func (g *gateway) command(args ...string) string {
	g.t.Helper()
	path, err := binary()
	if err != nil {
		g.t.Fatal(err)
	}
	command := exec.Command(path, append(args, "-c", filepath.Join(g.dir, "config.toml"))...)
	command.Dir = g.dir
	said, err := command.Output()
	if err != nil {
		g.t.Fatalf("gateway %v: %v", args, err)
	}
	return strings.TrimSpace(string(said))
}

// A person opens the link that the gateway prints, and is in. The link is good
// once, and its code stays in no address.
func TestLinkSignsABrowserIn(t *testing.T) {
	if chrome == nil {
		t.Skip(skipped)
	}
	g := startGatewayIn(t, t.TempDir(), "", echo)
	b, late := openTab(t), openTab(t)
	b.open(g.url)
	b.leadsTo("gateway token link")
	b.shot("signin")

	link := g.command("token", "link")
	if !strings.HasPrefix(link, g.url+"/signin/link#") {
		t.Fatalf("the link is %q", link)
	}
	b.open(link)
	b.leadsTo("What is on your mind?")
	b.await("document.readyState === 'complete'") // with the scripts that send what is typed
	if address := eval[string](b, "location.href"); address != g.url+"/" {
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

	b.do(chromedp.Click(".side-foot form button"))
	b.leadsTo("The gateway's token")
	b.open(g.url)
	b.leadsTo("The gateway's token")
}

// Whoever has a page open when the token is replaced is asked to sign in again.
func TestRotationAsksOpenPagesToSignInAgain(t *testing.T) {
	if chrome == nil {
		t.Skip(skipped)
	}
	g := startGatewayIn(t, t.TempDir(), "", echo)
	b := openTab(t)
	b.open(g.command("token", "link"))
	b.leadsTo("What is on your mind?")
	b.await("document.readyState === 'complete'") // with the scripts that send what is typed
	b.say("Stay")
	b.answers(1)
	g.command("token", "rotate")
	b.leadsTo("The gateway's token")
	b.do(chromedp.SendKeys("#token", g.command("token")), chromedp.Submit("form"))
	b.leadsTo("To: Stay")
}
