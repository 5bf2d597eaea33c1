package api

import (
	"net/http"
	"slices"
	"strings"
)

// model is one of OpenAI's models: https://platform.openai.com/docs/api-reference/models
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func newModel(name string) model { return model{ID: name, Object: "model", OwnedBy: "parley"} }

// listModels lists the models that answer. The gateway chooses among them,
// whatever a request says.
func (c *Channel) listModels(w http.ResponseWriter, _ *http.Request) {
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", mapped(c.Models, newModel)}
	writeJSON(w, http.StatusOK, list)
}

// getModel returns one of them.
func (c *Channel) getModel(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("model")
	if !slices.Contains(c.Models, name) {
		refuse(w, &openAIError{http.StatusNotFound,
			"There is no model " + shorten(name) + " here. There are: " + strings.Join(c.Models, ", ") + ".", "model", "model_not_found"})
		return
	}
	writeJSON(w, http.StatusOK, newModel(name))
}
