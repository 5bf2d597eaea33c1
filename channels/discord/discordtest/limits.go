package discordtest

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// limit is so many requests in a time.
type limit struct {
	requests int
	per      time.Duration
}

// byDefault is a limit that no client reaches, so that a test without rate
// limits is not slowed down by them.
var byDefault = limit{10_000, time.Second}

// bucket counts the requests of a window that began with the first of them.
type bucket struct {
	limit
	used  int
	reset time.Time
}

// take counts one request, and tells how long to wait if there are too many.
func (b *bucket) take(now time.Time) (wait time.Duration) {
	if !now.Before(b.reset) {
		b.used, b.reset = 0, now.Add(b.per)
	}
	if b.used >= b.requests {
		return b.reset.Sub(now)
	}
	b.used++
	return 0
}

// RateLimit allows a place so many new messages in a time from now on, and as
// many edits and deletions each: Discord counts them apart.
func (s *Server) RateLimit(place Channel, requests int, per time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits[place.ID] = limit{requests, per}
	s.forgetBuckets()
}

// LimitRates sets the limits of each place's messages, and of all requests
// together (0 is none). Discord's own are 5 messages in 5 s in a channel and
// 50 requests in a second: https://discord.com/developers/docs/topics/rate-limits
func (s *Server) LimitRates(messages int, per time.Duration, requestsPerSecond int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits[messagesLimit] = limit{messages, per}
	s.global = bucket{limit: limit{requestsPerSecond, time.Second}}
	s.forgetBuckets()
}

// messagesLimit is the key of the limit on messages in places that have none
// of their own.
const messagesLimit = "messages"

func (s *Server) forgetBuckets() { s.buckets = map[string]*bucket{} }

// limit applies the rate limits and sets the headers that tell of them.
func (s *Server) limit(w http.ResponseWriter, r *request) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	if s.global.requests > 0 && !strings.Contains(r.route, "{token}") {
		if wait := s.global.take(now); wait > 0 {
			return TooManyGlobally(wait)
		}
	}
	// Routes are limited by their first ids: the channel, the guild, the webhook.
	// https://discord.com/developers/docs/topics/rate-limits#rate-limits
	major := r.PathValue("channel") + r.PathValue("guild") + r.PathValue("token")
	key := r.route + " " + major
	b := s.buckets[key]
	if b == nil {
		b = &bucket{limit: s.limitFor(r)}
		s.buckets[key] = b
	}
	wait := b.take(now)
	b.headers(w.Header(), r.route, now)
	if wait > 0 {
		return TooMany(wait)
	}
	return Verdict{}
}

func (s *Server) limitFor(r *request) limit {
	if strings.Contains(r.route, "/messages") && r.Method != http.MethodGet {
		for _, key := range []string{r.PathValue("channel"), messagesLimit} {
			if l, ok := s.limits[key]; ok && l.requests > 0 {
				return l
			}
		}
	}
	return byDefault
}

// headers tells of the bucket:
// https://discord.com/developers/docs/topics/rate-limits#header-format
func (b *bucket) headers(h http.Header, route string, now time.Time) {
	sum := sha256.Sum256([]byte(route))
	h.Set("X-RateLimit-Bucket", hex.EncodeToString(sum[:8]))
	h.Set("X-RateLimit-Limit", strconv.Itoa(b.requests))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(b.requests-b.used))
	h.Set("X-RateLimit-Reset", seconds(float64(b.reset.UnixMilli())/1000))
	h.Set("X-RateLimit-Reset-After", seconds(b.reset.Sub(now).Seconds()))
}

func seconds(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) }

// limitHeaders are those of a 429.
func (v Verdict) limitHeaders(h http.Header) {
	h.Set("Retry-After", strconv.Itoa(int(math.Ceil(v.RetryAfter.Seconds()))))
	h.Set("X-RateLimit-Scope", "user")
	h.Set("X-RateLimit-Reset-After", seconds(v.RetryAfter.Seconds()))
	if v.Global {
		h.Set("X-RateLimit-Global", "true")
		h.Set("X-RateLimit-Scope", "global")
		h.Del("X-RateLimit-Remaining")
		return
	}
	h.Set("X-RateLimit-Remaining", "0")
}
