package config

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Identity says which accounts belong to one person: lists of "CHANNEL:USER",
// by the person's name.
type Identity map[string][]string

var identityType = reflect.TypeFor[Identity]()

// accountChannels are the channels in which people have accounts and private
// chats with the bot.
var accountChannels = []string{"telegram", "discord"}

// What the section takes, each as the end of the sentence "allowed: ".
const (
	allowedPerson   = "a name of 1 to 64 lower-case letters, digits, '-' or '_'"
	allowedAccounts = `a list of accounts such as ["telegram:42", "discord:99"]`
	allowedAccount  = `"telegram:USER" or "discord:USER", with the person's id there, which is a number`
)

// identity sets the section [identity], whose keys are names of people.
func (d *decoder) identity(m member, n *node) {
	if !n.isTable() {
		d.refuse(m.path, n, m.allowed())
		return
	}
	people := Identity{}
	taken := map[string]string{} // where an account stands, by the account
	for _, name := range inOrder(n.children) {
		path, given := join(m.path, name), n.children[name]
		items, isList := given.value.([]any)
		switch {
		case !isPersonName(name):
			d.problem(Problem{Line: given.line, Key: path, Found: fmt.Sprintf("the name %q", clip(name)), Allowed: allowedPerson})
		case !isList:
			d.refuse(path, given, allowedAccounts)
		default:
			people[name] = d.accounts(path, given.line, items, taken)
		}
	}
	if len(people) > 0 {
		m.value.Set(reflect.ValueOf(people))
	}
}

// accounts reads one person's list; each item that it does not take has a
// problem of its own.
func (d *decoder) accounts(path string, line int, items []any, taken map[string]string) []string {
	list := []string{}
	for i, item := range items {
		at := fmt.Sprintf("%s[%d]", path, i)
		account, _ := item.(string)
		if !isAccount(account) {
			d.refuse(at, &node{line: line, value: item}, allowedAccount)
			continue
		}
		if other, is := taken[account]; is {
			d.problem(Problem{Line: line, Key: at, Found: fmt.Sprintf("%q, which is %s already", account, other), Allowed: "each account once"})
			continue
		}
		taken[account] = fmt.Sprintf("%s (line %d)", at, line)
		list = append(list, account)
	}
	return list
}

// inOrder returns the names of a table in the order of the file.
func inOrder(nodes map[string]*node) []string {
	return slices.SortedFunc(maps.Keys(nodes), func(a, b string) int {
		return cmp.Or(cmp.Compare(nodes[a].line, nodes[b].line), cmp.Compare(a, b))
	})
}

// isPersonName reports whether a name can be part of a session's key and be typed by
// everyone.
func isPersonName(s string) bool {
	return isName(s) && s == strings.ToLower(s) && !strings.Contains(s, ".")
}

// isAccount reports whether s is an account in the form that adapters use: a user's id
// is a positive number, which can be written in one way only.
func isAccount(s string) bool {
	channel, user, _ := strings.Cut(s, ":")
	id, err := strconv.ParseUint(user, 10, 64)
	return slices.Contains(accountChannels, channel) && err == nil && id > 0 && strconv.FormatUint(id, 10) == user
}
