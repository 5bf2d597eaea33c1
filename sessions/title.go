package sessions

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxTitle is how long a title that a person types may be, in characters.
const maxTitle = 80

// TitleRule is a sentence for people that says which titles ParseTitle accepts.
var TitleRule = fmt.Sprintf("A title has from 1 to %d letters.", maxTitle)

// ParseTitle returns a title that a person has typed, in one line. ok is false
// when it is empty or too long.
func ParseTitle(typed string) (title string, ok bool) {
	title = strings.Join(strings.Fields(typed), " ")
	return title, title != "" && utf8.RuneCountInString(title) <= maxTitle
}
