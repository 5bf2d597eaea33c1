package discordtest

import (
	"encoding/json"
	"regexp"
	"slices"
)

var (
	userMention = regexp.MustCompile(`<@!?([0-9]+)>`)
	roleMention = regexp.MustCompile(`<@&([0-9]+)>`)
	allMention  = regexp.MustCompile(`@(everyone|here)\b`)
)

// allowedMentions is the field of a message:
// https://discord.com/developers/docs/resources/message#allowed-mentions-object
type allowedMentions struct {
	Parse       []string `json:"parse"`
	Users       []string `json:"users"`
	Roles       []string `json:"roles"`
	RepliedUser bool     `json:"replied_user"`
}

// everybody is what an absent field means.
var everybody = allowedMentions{Parse: []string{"users", "roles", "everyone"}, RepliedUser: true}

// readAllowed reads the field; nil when it is absent.
func readAllowed(raw json.RawMessage) (allowedMentions, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return everybody, nil
	}
	var a allowedMentions
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, invalid("allowed_mentions", "DICT_TYPE_CONVERT", "%v", err)
	}
	for _, kind := range a.Parse {
		if !slices.Contains(everybody.Parse, kind) {
			return a, invalid("allowed_mentions.parse", "BASE_TYPE_CHOICES", "Value must be one of {'users', 'roles', 'everyone'}, not %q.", kind)
		}
	}
	for kind, ids := range map[string][]string{"users": a.Users, "roles": a.Roles} {
		switch {
		case len(ids) > 100:
			return a, invalid("allowed_mentions."+kind, "BASE_TYPE_MAX_LENGTH", "Must be 100 or fewer in length.")
		case len(ids) > 0 && slices.Contains(a.Parse, kind):
			return a, invalid("allowed_mentions", "MESSAGE_ALLOWED_MENTIONS_PARSE_EXCLUSIVE",
				"parse:[%q] and %s: [ids...] are mutually exclusive.", kind, kind)
		}
	}
	return a, nil
}

// pings are those whom a text notifies.
func (a allowedMentions) pings(text string, isReply bool) Pings {
	return Pings{
		Everyone:    slices.Contains(a.Parse, "everyone") && allMention.MatchString(text),
		Users:       a.named("users", a.Users, userMention, text),
		Roles:       a.named("roles", a.Roles, roleMention, text),
		RepliedUser: a.RepliedUser && isReply,
	}
}

// named are the ids of one kind in the text that may be notified, each once.
func (a allowedMentions) named(kind string, listed []string, pattern *regexp.Regexp, text string) []string {
	var ids []string
	for _, match := range pattern.FindAllStringSubmatch(text, -1) {
		id := match[1]
		allowed := slices.Contains(a.Parse, kind) || slices.Contains(listed, id)
		if allowed && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids
}
