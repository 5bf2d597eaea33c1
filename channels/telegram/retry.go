package telegram

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"parley/channels"
)

// troubleOf returns why a call to Telegram failed, and how long Telegram asks to
// wait. For a rejected token see untilTaken.
func troubleOf(err error) (t channels.Trouble, atLeast time.Duration) {
	refused := refusal(err)
	var garbled *garbledError
	t = channels.Trouble{Name: "network", Level: slog.LevelWarn, Text: "Telegram can't be reached, trying again"}
	switch {
	case errors.Is(err, errServer):
		t.Name, t.Text = "server", "Telegram server failed, trying again"
	case errors.As(err, &garbled) || errors.Is(err, errResult):
		t.Name, t.Text = "answer", "response is not the Bot API's, trying again"
	case errors.Is(err, errNoIDs):
		t.Name, t.Level, t.Text = "ids", slog.LevelError, "Telegram's updates have no ids, so none of them can be confirmed: "+
			"their messages are taken, and Telegram gives the same ones again until an update with an id follows them"
	case refused == nil:
	case isWebhookConflict(err):
		t.Name, t.Text = "webhook", "a webhook takes this bot's messages, so none arrive here. "+
			"If nothing else needs it, remove it with the method deleteWebhook; this gateway does not, since the webhook may be another program's"
	case isConflict(err):
		t.Name, t.Text = "conflict", "another program polls with this bot's token, and Telegram gives each message to one of them only. Stop the other one"
	default:
		t.Name, t.Text, atLeast = "refused", "request refused by Telegram, trying again", time.Duration(refused.RetryAfter)*time.Second
	}
	return t, atLeast
}

// isConflict reports whether Telegram answers no polls since another program polls, or a webhook is set.
func isConflict(err error) bool {
	refused := refusal(err)
	return refused != nil && refused.Code == http.StatusConflict
}

// isWebhookConflict reports whether Telegram answers no polls since a webhook is
// set.
func isWebhookConflict(err error) bool {
	return isConflict(err) && strings.Contains(refusal(err).Message, "webhook")
}
