package config

import "testing"

// Keys that would have no effect are reported with their lines.
func TestEmbeddingsAndTranscriptionNeedAModel(t *testing.T) {
	for doc, want := range map[string]string{
		"[embeddings]\nbase_url = \"http://127.0.0.1:11434/v1\"": `config.toml:2: embeddings.base_url: found an address without a model, allowed: model = "NAME" in the same section, which turns embeddings on`,
		"[embeddings]\n\napi_key = \"secret\"":                   `config.toml:3: embeddings.api_key: found a key without a model, allowed: model = "NAME" in the same section, which turns embeddings on`,
		"[embeddings]\ndimensions = 256":                         `config.toml:2: embeddings.dimensions: found a number without a model, allowed: model = "NAME" in the same section, which turns embeddings on`,
		"[embeddings]\nmodel = \"m\"\ndimensions = -1":           `config.toml:3: embeddings.dimensions: found -1 (integer), allowed: a whole number from 0 to 8192`,
		"[embeddings]\nmodel = \"m\"\nquery_timeout = \"1m\"":    `config.toml:3: embeddings.query_timeout: found "1m" (string), allowed: a duration such as "30s", "5m" or "720h" from 1ms to 10s`,
		"[transcription]\nlanguage = \"de\"":                     `config.toml:2: transcription.language: found a language without a model, allowed: model = "NAME" in the same section, which turns transcription on`,
		"[transcription]\nmodel = \"m\"\nmax_file = 0":           `config.toml:3: transcription.max_file: found 0 (integer), allowed: a whole number from 1 to 2000`,
		"[embeddings]\nmodel = \"m\"\nbase_url = \"http://127.0.0.1:11434/v1\"\napi_key = \"secret\"\ndimensions = 256": "",
	} {
		_, err := loadText(t, doc)
		got := ""
		if err != nil {
			got = withoutFolders(err)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", doc, got, want)
		}
	}
}
