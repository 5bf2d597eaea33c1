package discordtest

// Intents: https://discord.com/developers/docs/events/gateway#list-of-intents
const (
	intentGuilds         = 1 << 0
	intentMembers        = 1 << 1 // privileged
	intentPresences      = 1 << 8 // privileged
	intentGuildMessages  = 1 << 9
	intentDirectMessages = 1 << 12
	intentMessageContent = 1 << 15 // privileged

	// knownIntents leaves out the bits 17 to 19, 22 and 23, which Discord has
	// not given away.
	knownIntents = 1<<17 - 1 | 1<<20 | 1<<21 | 1<<24 | 1<<25
)

// disallowed are the privileged intents among intents that are not switched
// on for the application.
func (c Config) disallowed(intents int) int {
	off := intentMembers | intentPresences
	if c.WithoutMessageContent {
		off |= intentMessageContent
	}
	return intents & off
}
