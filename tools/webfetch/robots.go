package webfetch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/temoto/robotstxt"
)

// agentName is the name by which a robots.txt knows the gateway.
const agentName = "Parley"

const (
	robotsFor     = time.Hour // how long a robots.txt is kept
	robotsSites   = 100       // how many robots.txt are kept
	maxRobotsTxt  = 512 << 10 // bytes that are read of a robots.txt; RFC 9309 asks for at least 500 KiB
	maxKeptRobots = 64 << 10  // bytes of the longest robots.txt that is kept
	maxWildcards  = 5000      // wildcards in a robots.txt; matching takes about a second with that many
)

// robots keeps what sites allow, by the server.
type robots struct {
	mu    sync.Mutex
	sites map[string]siteRules
}

type siteRules struct {
	status int
	text   []byte // the robots.txt itself, which needs less memory than what is made of it for matching
	until  time.Time
}

var (
	errRobots   = errors.New("the site's robots.txt asks programs not to read this page")
	errNoRobots = errors.New("the site's robots.txt can't be read, so nobody knows what it allows")
)

// checkRobots returns an error if a site does not want a page to be read. Without a
// robots.txt everything may be read, and nothing while the server fails, as RFC 9309 says.
func (f *Fetcher) checkRobots(ctx context.Context, u *url.URL) error {
	if !f.config.Robots || f.isAllowed(hostPort(u)) {
		return nil
	}
	place := url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/robots.txt"}
	site, known := f.robots.find(place.String())
	if !known {
		answer, err := f.get(ctx, &place, maxRobotsTxt, func(*url.URL) error { return nil })
		if err != nil {
			return err
		}
		if answer.status >= 500 || answer.status == http.StatusTooManyRequests || bytes.Count(answer.body, []byte("*")) > maxWildcards {
			return fmt.Errorf("%s: %w", shownURL(u), errNoRobots)
		}
		site = siteRules{answer.status, answer.body, time.Now().Add(robotsFor)}
		if len(site.text) <= maxKeptRobots {
			f.robots.keep(place.String(), site)
		}
	}
	rules, err := robotstxt.FromStatusAndBytes(site.status, site.text)
	if err != nil { // it makes no sense, and so forbids nothing
		return nil
	}
	if !rules.TestAgent(u.RequestURI(), agentName) {
		return fmt.Errorf("%s: %w", shownURL(u), errRobots)
	}
	return nil
}

func (r *robots) find(place string) (siteRules, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, known := r.sites[place]
	return s, known && time.Now().Before(s.until)
}

// keep keeps a robots.txt. When there are too many, any other one goes.
func (r *robots) keep(place string, s siteRules) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sites == nil {
		r.sites = map[string]siteRules{}
	}
	for other := range r.sites {
		if len(r.sites) < robotsSites {
			break
		}
		delete(r.sites, other)
	}
	r.sites[place] = s
}
