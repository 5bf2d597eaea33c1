package channels

// Command describes a command of the gateway for the menu that a platform shows.
type Command struct {
	Name        string // without the slash
	Description string
	Options     []Option // what may follow the name, in this order
	Private     bool     // only the asker sees the answer, where the platform can do that
}

// Option is an argument of a command: a word, several words, or a number.
type Option struct {
	Name        string // lower case, without spaces
	Description string
	Number      bool     // a whole number from 0 on; else a text
	Default     string   // is used where a later option is given without this one
	Choices     []string // the only values that it may have; none = any
}
