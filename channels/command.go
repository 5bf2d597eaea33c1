package channels

// Command is what an adapter tells its platform about a command of the
// gateway, for the menu that the platform shows.
type Command struct {
	Name        string // without the slash
	Description string
	Options     []Option // what may stand behind the name, in this order
	Private     bool     // the answer is for the asker alone, where the platform can do that
}

// Option is a word, or a number of words, behind a command's name.
type Option struct {
	Name        string // lower case, without spaces
	Description string
	Number      bool   // a whole number from 0 on; else a text
	Default     string // stands for the option where a later one is given without it
}
