package api

import (
	"net/http"
	"slices"
	"strings"

	"parley/conversation"
)

// model is one of OpenAI's models: https://platform.openai.com/docs/api-reference/models
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

func newModel(name string) model { return model{ID: name, Object: "model", OwnedBy: "parley"} }

// modelNames returns the models that answer where a request names none, and those that requests
// may name.
func (c *Channel) modelNames() []string {
	names := slices.Clone(c.Models)
	for _, name := range c.Named {
		if c.MayUse(name, ofPrograms) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// ofPrograms stands for the sessions of programs in general, and for requests that name none.
const ofPrograms = conversation.Key(ChannelName + ":")

// askedModel returns the model that a request names, or "" if that is no model of the gateway:
// clients always send the name of some model.
func (c *Channel) askedModel(name string, key conversation.Key) (string, error) {
	if !slices.Contains(c.Named, name) {
		return "", nil
	}
	if !c.MayUse(name, key) {
		return "", &openAIError{status: http.StatusNotFound, param: "model", code: "model_not_found",
			message: "Programs may not use the model " + shorten(name) + " here. They may use: " + strings.Join(c.modelNames(), ", ") + "."}
	}
	return name, nil
}

// listModels lists the models that answer, and those that requests may name.
func (c *Channel) listModels(w http.ResponseWriter, _ *http.Request) {
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", mapped(c.modelNames(), newModel)}
	writeJSON(w, http.StatusOK, list)
}

// getModel returns one of them.
func (c *Channel) getModel(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("model")
	if !slices.Contains(c.modelNames(), name) {
		refuse(w, &openAIError{status: http.StatusNotFound, param: "model", code: "model_not_found",
			message: "There is no model " + shorten(name) + " here. There are: " + strings.Join(c.modelNames(), ", ") + "."})
		return
	}
	writeJSON(w, http.StatusOK, newModel(name))
}
