package conversation

import (
	"strings"
)

// Account is a channel as one bot of its platform serves it. Bots of a platform
// may number their messages alike, so a message is known by channel, account and
// source id, and what came to one bot is answered by that bot alone.
type Account struct {
	Channel string
	ID      string // the platform's id of the bot, "7000001"; "" where the channel has no bots, or the id is not known
}

// String is "telegram:7000001", or the channel alone.
func (a Account) String() string {
	if a.ID == "" {
		return a.Channel
	}
	return a.Channel + ":" + a.ID
}

// Serves reports whether a process that serves the account works what came to
// another: the same one, or one of the channel whose id, or that of a, is not
// known.
func (a Account) Serves(other Account) bool {
	return a.Channel == other.Channel && (a.ID == "" || other.ID == "" || a.ID == other.ID)
}

// ofAccount is Serves as a condition on the column account, where the name of a
// parameter stands for the id of the one that serves.
func ofAccount(column, parameter string) string {
	return `(` + parameter + ` = '' OR ` + column + ` = '' OR ` + column + ` = ` + parameter + `)`
}

// servedBy is the condition that what the table has came to one of the accounts,
// with what stands for its question marks; none where none are named. Its plus
// is that of byAccount.
func servedBy(table string, accounts []Account) (condition string, args []any) {
	if len(accounts) == 0 {
		return "", nil
	}
	var each []string
	for _, a := range accounts {
		if a.ID == "" {
			each = append(each, `+`+table+`.channel = ?`)
			args = append(args, a.Channel)
			continue
		}
		each = append(each, `+`+table+`.channel = ? AND `+table+`.account IN ('', ?)`)
		args = append(args, a.Channel, a.ID)
	}
	return ` AND (` + strings.Join(each, ` OR `) + `)`, args
}
