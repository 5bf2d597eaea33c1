package console

import "net/http"

// Setting is a key of the configuration as it is in force. It may be shown to
// anybody: of a secret it says only whether it is set.
type Setting struct {
	Section string // "telegram", "" for the keys above all sections
	Key     string // "send_rate"
	Value   string
	Origin  string // where it comes from: "default", "file", "environment HTTP_TOKEN"
	Secret  bool
}

type configurationPage struct {
	Facts    []Fact
	Sections []settings
}

// settings are the keys of a section.
type settings struct {
	Name string
	Keys []Setting
}

func (c *Console) showConfiguration(w http.ResponseWriter, r *http.Request) {
	p := configurationPage{Facts: c.Facts}
	for _, s := range c.Settings {
		if last := len(p.Sections) - 1; last < 0 || p.Sections[last].Name != s.Section {
			p.Sections = append(p.Sections, settings{Name: s.Section})
		}
		section := &p.Sections[len(p.Sections)-1]
		section.Keys = append(section.Keys, s)
	}
	c.show(w, r, "configuration.html", "configuration", "Configuration", p)
}
