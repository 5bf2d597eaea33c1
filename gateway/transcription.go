package gateway

import (
	"parley/filecontent"
	"parley/llm"
)

// transcription has recordings transcribed, if the configuration names a model.
func (g *Gateway) transcription(getenv func(string) string) filecontent.Option {
	cfg := g.cfg.Transcription
	if cfg.Model == "" {
		return func(*filecontent.Reader) {}
	}
	cfg.Attempted = attempted(g.metrics)
	transcriber := llm.NewTranscriber(cfg, getenv)
	g.log.Info("recordings are transcribed", "model", cfg.Model, "host", transcriber.Host())
	return filecontent.WithTranscriber(transcriber)
}
