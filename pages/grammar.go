package pages

import (
	"strings"
)

// aliases are other names of languages than those of their grammars.
var aliases = map[string]string{
	"sh": "bash", "shell": "bash", "zsh": "bash", "console": "bash",
	"c++": "cpp", "cc": "cpp", "h": "c", "hpp": "cpp",
	"c#": "csharp", "cs": "csharp",
	"patch":  "diff",
	"docker": "dockerfile",
	"golang": "go",
	"hs":     "haskell",
	"toml":   "ini",
	"js":     "javascript", "jsx": "javascript", "mjs": "javascript",
	"jsonc": "json",
	"kt":    "kotlin",
	"make":  "makefile",
	"md":    "markdown",
	"pl":    "perl",
	"ps1":   "powershell",
	"proto": "protobuf",
	"py":    "python", "python3": "python",
	"rb":   "ruby",
	"rs":   "rust",
	"ts":   "typescript",
	"tsx":  "typescript",
	"html": "xml", "svg": "xml", "vue": "xml",
	"yml": "yaml",
}

// grammarOf returns the name of the grammar that highlights a language, "" when
// there is none.
func grammarOf(language string) string {
	name := strings.ToLower(language)
	if grammar, known := aliases[name]; known {
		name = grammar
	}
	if _, known := loadAssets().files["vendor/highlight/languages/"+name+".js"]; !known {
		return ""
	}
	return name
}
