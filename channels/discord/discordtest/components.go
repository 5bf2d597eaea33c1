package discordtest

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Kinds of components: https://discord.com/developers/docs/components/reference#component-object-component-types
const (
	actionRow = 1
	button    = 2
	selection = 3
	linkStyle = 5
)

// component is a row, or a button or select in one.
type component struct {
	Type       int         `json:"type"`
	CustomID   string      `json:"custom_id"`
	Label      string      `json:"label"`
	Style      int         `json:"style"`
	URL        string      `json:"url"`
	Disabled   bool        `json:"disabled"`
	Emoji      any         `json:"emoji"`
	Options    []any       `json:"options"`
	Components []component `json:"components"`
}

// checkComponents checks rows of buttons, and rows with a select and its options.
func checkComponents(raw json.RawMessage) error {
	if absent(raw) {
		return nil
	}
	var rows []component
	if err := json.Unmarshal(raw, &rows); err != nil {
		return invalid("components", "LIST_TYPE_CONVERT", "%v", err)
	}
	if len(rows) > 5 {
		return invalid("components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
	}
	seen := map[string]bool{}
	for i, row := range rows {
		field := fmt.Sprintf("components.%d", i)
		if row.Type != actionRow {
			return invalid(field+".type", "UNION_TYPE_CHOICES", "Value of field \"type\" must be one of (1,).")
		}
		if n := len(row.Components); n < 1 || n > 5 {
			return invalid(field+".components", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 5 in length.")
		}
		for n, c := range row.Components {
			if err := c.check(fmt.Sprintf("%s.components.%d", field, n), seen); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c component) check(field string, seen map[string]bool) error {
	link := c.Type == button && c.Style == linkStyle
	n := utf8.RuneCountInString(c.CustomID)
	switch {
	case c.Type != button && c.Type != selection:
		return invalid(field+".type", "UNION_TYPE_CHOICES", "Value of field \"type\" must be one of (2, 3).")
	case link && (c.URL == "" || c.CustomID != ""):
		return invalid(field+".url", "BASE_TYPE_REQUIRED", "A link has a url and no custom_id.")
	case !link && (n < 1 || n > 100):
		return invalid(field+".custom_id", "BASE_TYPE_BAD_LENGTH", "Must be between 1 and 100 in length.")
	case !link && seen[c.CustomID]:
		return invalid(field+".custom_id", "COMPONENT_CUSTOM_ID_DUPLICATED", "Component custom id cannot be duplicated")
	case c.Type == button && (c.Style < 1 || c.Style > linkStyle):
		return invalid(field+".style", "BASE_TYPE_CHOICES", "Value must be one of (1, 2, 3, 4, 5).")
	case utf8.RuneCountInString(c.Label) > 80:
		return invalid(field+".label", "BASE_TYPE_MAX_LENGTH", "Must be 80 or fewer in length.")
	case c.Type == button && c.Label == "" && c.Emoji == nil:
		return invalid(field, "BUTTON_COMPONENT_INVALID", "A button has a label or an emoji.")
	case c.Type == selection && len(c.Options) == 0:
		return invalid(field+".options", "BASE_TYPE_REQUIRED", "This field is required")
	}
	seen[c.CustomID] = true
	return nil
}

// find returns the component of a message with a custom id.
func (m *Message) find(customID string) (component, bool) {
	var rows []component
	if json.Unmarshal(orList(m.Components), &rows) != nil {
		return component{}, false
	}
	for _, row := range rows {
		for _, c := range row.Components {
			if c.CustomID == customID && customID != "" {
				return c, true
			}
		}
	}
	return component{}, false
}
