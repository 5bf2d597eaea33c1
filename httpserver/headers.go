package httpserver

import "net/http"

// policy lets a page load only what this server serves, and run no inline script:
// https://www.w3.org/TR/CSP3/. Pictures may also be made in the page (data:,
// blob:), for those that a person is about to send.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
	"font-src 'self'; connect-src 'self'; manifest-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// setHeaders sets the headers of every answer. A handler may set another
// Cache-Control of resources that are public and never change.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}
