package channels

// Command is what an adapter tells its platform about a command of the
// gateway, for the menu that the platform shows.
type Command struct {
	Name        string // without the slash
	Description string
}
