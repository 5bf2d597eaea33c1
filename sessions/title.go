package sessions

import (
	"fmt"
	"unicode/utf8"

	"parley/plaintext"
)

// maxTitle is how long a title that a person types may be, in characters.
const maxTitle = 80

// TitleRule is a sentence for people that says which titles ParseTitle accepts.
var TitleRule = fmt.Sprintf("A title has from 1 to %d letters.", maxTitle)

// ParseTitle returns a title that a person has typed, as plaintext.OneLine returns it. ok is
// false when it is empty or too long.
func ParseTitle(typed string) (title string, ok bool) {
	title = plaintext.OneLine(typed)
	return title, title != "" && utf8.RuneCountInString(title) <= maxTitle
}
