package toolstate

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"parley/conversation/state"
)

// commandEvents returns what a command that succeeded has done: commits, patches, and
// where it worked.
func commandEvents(command string) []state.Event {
	var list []state.Event
	if commit := commitOf(command); commit != "" {
		list = append(list, state.Event{Kind: state.Decided, Text: "committed: " + commit})
	}
	if strings.Contains(command, "*** Begin Patch") {
		list = append(list, touched(patchedFiles(command))...)
	}
	return append(list, placeEvents(directoryOf(command), cloneOf(command))...)
}

// exitForm matches "exit status 1", "exited with code 2" and `"exit_code": 3`.
var exitForm = regexp.MustCompile(`(?i)\bexit(?:ed)?(?:[ _]with)?[ _]?(?:status|code)["']?\s*[:=]?\s*(\d{1,3})\b`)

// exitStatus returns the exit status that the result of a command names last, behind
// what it has printed, or 0 when it names none.
func exitStatus(text string) int {
	found := exitForm.FindAllStringSubmatch(text, -1)
	if found == nil {
		return 0
	}
	status, _ := strconv.Atoi(found[len(found)-1][1]) // three digits always fit
	return status
}

var commitForm = regexp.MustCompile(`\bgit\s+commit\b[^|;&]*?\s-[a-zA-Z]*m\s*(?:"([^"]+)"|'([^']+)')`)

// commitOf returns the message of the git commit that a command makes, "" for none.
func commitOf(command string) string {
	found := commitForm.FindStringSubmatch(command)
	if found == nil {
		return ""
	}
	return found[1] + found[2]
}

// directoryForm matches a command that begins in a directory: "cd /srv/app && make".
var directoryForm = regexp.MustCompile(`^\s*cd\s+(?:"([^"]+)"|'([^']+)'|([^\s;&|]+))\s*(?:&&|;|$)`)

// directoryOf returns the directory that a command begins in, where it is named in
// full, else "".
func directoryOf(command string) string {
	found := directoryForm.FindStringSubmatch(command)
	if found == nil {
		return ""
	}
	directory := found[1] + found[2] + found[3]
	if !strings.HasPrefix(directory, "/") && !strings.HasPrefix(directory, "~") {
		return ""
	}
	return directory
}

var cloneForm = regexp.MustCompile(`\bgit\s+clone\b[^;&|]*?\s["']?((?:[a-z+]+://|[\w.-]+@)[^\s"';&|]+)`)

// cloneOf returns the repository that a command clones, "" for none.
func cloneOf(command string) string {
	found := cloneForm.FindStringSubmatch(command)
	if found == nil {
		return ""
	}
	return found[1]
}

// withoutPassword returns the address of a repository without a password, and without
// the user of a web address, who may be a token.
func withoutPassword(address string) string {
	parsed, err := url.Parse(address)
	if err != nil || parsed.User == nil || !strings.Contains(address, "://") {
		return address
	}
	name := parsed.User.Username()
	parsed.User = nil
	if !strings.HasPrefix(parsed.Scheme, "http") {
		parsed.User = url.User(name)
	}
	return parsed.String()
}
