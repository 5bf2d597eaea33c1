package telegram

import (
	"strings"

	"parley/channels"
)

// oneLine is a name without line ends and control characters.
func oneLine(name string) string {
	return strings.Join(strings.Fields(channels.Clean(name)), " ")
}
