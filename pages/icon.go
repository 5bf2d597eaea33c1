package pages

import "html/template"

// icons are strokes in a box of 24 by 24.
var icons = map[string]string{
	"plus":     `<path d="M12 5v14M5 12h14"/>`,
	"menu":     `<path d="M4 7h16M4 12h16M4 17h16"/>`,
	"close":    `<path d="M6 6l12 12M18 6L6 18"/>`,
	"search":   `<circle cx="11" cy="11" r="6.5"/><path d="M16 16l4.5 4.5"/>`,
	"send":     `<path d="M12 19V5M6 11l6-6 6 6"/>`,
	"stop":     `<rect x="7" y="7" width="10" height="10" rx="2" fill="currentColor"/>`,
	"attach":   `<path d="M20 11.5l-8 8a5 5 0 0 1-7.1-7.1l8.5-8.4a3.4 3.4 0 0 1 4.8 4.8l-8.4 8.4a1.7 1.7 0 0 1-2.4-2.4l7.6-7.6"/>`,
	"clock":    `<circle cx="12" cy="12" r="8"/><path d="M12 7v5l3.5 2"/>`,
	"pencil":   `<path d="M4 20l1-4L16.5 4.5a2 2 0 0 1 3 3L8 19z"/>`,
	"archive":  `<rect x="4" y="5" width="16" height="4" rx="1"/><path d="M6 9v9a1 1 0 0 0 1 1h10a1 1 0 0 0 1-1V9M10 13h4"/>`,
	"trash":    `<path d="M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12M10.5 11v4.5M13.5 11v4.5"/>`,
	"retry":    `<path d="M19 12a7 7 0 1 1-2.1-5L19 9M19 4v5h-5"/>`,
	"copy":     `<rect x="9" y="9" width="11" height="11" rx="2"/><path d="M5 15a2 2 0 0 1-1-1.7V6a2 2 0 0 1 2-2h7.3A2 2 0 0 1 15 5"/>`,
	"download": `<path d="M12 4v11M7 11l5 5 5-5M5 20h14"/>`,
	"theme":    `<circle cx="12" cy="12" r="8"/><path d="M12 4a8 8 0 0 1 0 16z" fill="currentColor"/>`,
	"more":     `<circle cx="6" cy="12" r="1.2" fill="currentColor"/><circle cx="12" cy="12" r="1.2" fill="currentColor"/><circle cx="18" cy="12" r="1.2" fill="currentColor"/>`,
	"tool":     `<path d="M14.5 6.5a4 4 0 0 0-5 5L4 17l3 3 5.5-5.5a4 4 0 0 0 5-5L15 12l-3-3z"/>`,
	"sliders":  `<path d="M4 7h9M17 7h3M4 17h3M11 17h9"/><circle cx="15" cy="7" r="2"/><circle cx="9" cy="17" r="2"/>`,
	"gauge":    `<path d="M4 20V10M10 20V4M16 20v-8M20 20H3"/>`,
	"chats":    `<path d="M4 5h16v11H9l-5 4z"/>`,
	"person":   `<circle cx="12" cy="8" r="4"/><path d="M4.5 20a7.5 7.5 0 0 1 15 0"/>`,
	"pin":      `<path d="M9 4h6l-1 6 3.5 3.5h-11L10 10zM12 13.5V20"/>`,
	"check":    `<path d="M5 12.5l4.5 4.5L19 7.5"/>`,
	"keyboard": `<rect x="3" y="6" width="18" height="12" rx="2"/><path d="M7 10h.01M11 10h.01M15 10h.01M17.5 10h.01M8 14h8"/>`,
	"left":     `<path d="M14.5 6l-6 6 6 6"/>`,
	"right":    `<path d="M9.5 6l6 6-6 6"/>`,
	"down":     `<path d="M12 5v14M6 13l6 6 6-6"/>`,
	"file":     `<path d="M7 3h7l5 5v12a1 1 0 0 1-1 1H7a1 1 0 0 1-1-1V4a1 1 0 0 1 1-1zM14 3v5h5"/>`,
}

// icon returns a picture that is hidden from screen readers: a label stands
// beside it.
func icon(name string) template.HTML {
	strokes, known := icons[name]
	if !known {
		panic("no icon is called " + name)
	}
	return template.HTML(`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false" fill="none" stroke="currentColor" ` +
		`stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round">` + strokes + `</svg>`)
}
