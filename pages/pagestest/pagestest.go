// Package pagestest has texts that try to become scripts, and a function that finds
// scripts in HTML, for the tests of all pages.
package pagestest

import (
	_ "embed"
	"fmt"
	"net/url"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

//go:embed xss.txt
var corpus string

// Hostile returns texts of one line each that try to become script, to load
// something from elsewhere, or to break out of where they stand. What they would
// run is alert(1).
func Hostile() []string {
	return strings.Split(strings.TrimSuffix(corpus, "\n"), "\n")
}

// Harm returns what in a page, or a part of one, could run or load something that
// the gateway did not mean; nil when there is nothing.
func Harm(page string) []string {
	document, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return []string{err.Error()}
	}
	var found []string
	for node := range document.Descendants() {
		if node.Type == html.ElementNode {
			found = append(found, harmOf(node)...)
		}
	}
	return found
}

func harmOf(node *html.Node) []string {
	var found []string
	report := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("<%s>: ", node.Data)+fmt.Sprintf(format, args...))
	}
	switch node.Data {
	case "iframe", "object", "embed", "base", "style", "math", "applet", "frame":
		report("may not stand in a page")
	case "script":
		if node.FirstChild != nil {
			report("holds %q", node.FirstChild.Data)
		}
	}
	for _, attribute := range node.Attr {
		switch name := strings.ToLower(attribute.Key); {
		case strings.HasPrefix(name, "on"), name == "style", name == "srcdoc", name == "http-equiv":
			report("has %s=%q", name, attribute.Val)
		case name == "src" || name == "action" || name == "formaction" || name == "data" || name == "srcset":
			if !isOwn(attribute.Val) {
				report("loads %s=%q", name, attribute.Val)
			}
		case name == "href" && node.Data != "a":
			if !isOwn(attribute.Val) {
				report("loads %s=%q", name, attribute.Val)
			}
		case name == "href":
			if !isOwn(attribute.Val) && !isOutward(attribute.Val) {
				report("leads to %q", attribute.Val)
			}
		}
	}
	return found
}

// isOwn reports whether an address is of this server.
func isOwn(address string) bool {
	return strings.HasPrefix(address, "#") || strings.HasPrefix(address, "/") && !strings.HasPrefix(address, "//") && !strings.HasPrefix(address, `/\`)
}

// isOutward reports whether an address is one that a text may lead to.
func isOutward(address string) bool {
	target, err := url.Parse(address)
	return err == nil && (target.Scheme == "https" || target.Scheme == "http" || target.Scheme == "mailto")
}

// Elements returns the number of top-level elements of HTML, as a page counts them.
func Elements(part string) (n int) {
	body := &html.Node{Type: html.ElementNode, Data: "body", DataAtom: atom.Body}
	nodes, err := html.ParseFragment(strings.NewReader(part), body)
	if err != nil {
		return -1
	}
	for _, node := range nodes {
		if node.Type == html.ElementNode {
			n++
		}
	}
	return n
}
