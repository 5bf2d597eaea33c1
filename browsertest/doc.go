// Package browsertest looks at the gateway's pages through a real browser: the
// real binary, with a fake model, in Chromium. Its tests are skipped where there
// is no Chromium.
package browsertest
