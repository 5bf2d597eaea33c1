package api

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// responseItem is an item of the input of a response, or of the output of an earlier one
// that is sent back.
type responseItem struct {
	Type    string          `json:"type"` // "" = message
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`

	CallID    string          `json:"call_id"` // of function_call and function_call_output
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

// inputMessage is a message that an input holds, with its content.
type inputMessage struct {
	requestMessage
	said  content
	param string // the parameter of the request that holds the message, for errors
}

// responsePart is a part of the content of an item.
type responsePart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Refusal  string `json:"refusal"`
	ImageURL string `json:"image_url"`
	FileID   string `json:"file_id"`
	FileURL  string `json:"file_url"`
	FileName string `json:"filename"`
	FileData string `json:"file_data"`
}

func (p responsePart) read() (text string, f *file, err error) {
	switch {
	case p.FileID != "":
		err = problem(http.StatusBadRequest, "file_id is not supported here. Send the data itself, as a data: address.")
	case p.Type == "input_text", p.Type == "output_text":
		return p.Text, nil, nil
	case p.Type == "refusal":
		return p.Refusal, nil, nil
	case p.Type == "input_image":
		f, err = pictureAt("image_url", p.ImageURL)
	case p.Type == "input_file" && p.FileURL != "":
		f, err = fileAt(p.FileURL, p.FileName)
	case p.Type == "input_file":
		f, err = fileAt(p.FileData, p.FileName)
	default:
		err = problem(http.StatusBadRequest, "A part of an item has the type %q. Allowed: input_text, input_image, input_file, output_text, refusal.", shorten(p.Type))
	}
	return "", f, err
}

// madePicture stands for a picture of an earlier answer, since servers take none in
// answers.
const madePicture = "[a picture that you made, shown to the user]"

// messages returns the messages of the request, with the instructions as the first one.
func (request responseRequest) messages() (list []inputMessage, err error) {
	if request.Instructions != "" {
		list = append(list, inputMessage{requestMessage{Role: "system"}, content{text: request.Instructions}, "instructions"})
	}
	var items []responseItem
	switch {
	case !isGiven(request.Input):
		return nil, wrongParameter("input", "missing_required_parameter", "Missing required parameter: 'input'.")
	case request.Input[0] != '[':
		var text string
		if err := json.Unmarshal(request.Input, &text); err != nil {
			return nil, wrongParameter("input", "invalid_type", "Invalid type for 'input': it is neither a text nor a list of items.")
		}
		return append(list, inputMessage{requestMessage{Role: "user"}, content{text: text}, "input"}), nil
	}
	if err := json.Unmarshal(request.Input, &items); err != nil {
		return nil, inParameter("input", unreadable(err))
	}
	if len(items) == 0 {
		return nil, wrongParameter("input", "empty_array", "input is empty. Give at least one item.")
	}
	for i, item := range items {
		param := fmt.Sprintf("input[%d]", i)
		m, err := item.message()
		if err != nil {
			return nil, inParameter(param, err)
		}
		if m == nil {
			continue
		}
		m.param = param
		list = joined(list, *m, item.Type == "function_call")
	}
	return list, nil
}

// joined adds a message to a list. A call belongs to the message of the assistant that
// precedes it: together they are one answer.
func joined(list []inputMessage, m inputMessage, isCall bool) []inputMessage {
	if last := len(list) - 1; isCall && last >= 0 && list[last].Role == "assistant" {
		list[last].ToolCalls = append(list[last].ToolCalls, m.ToolCalls...)
		return list
	}
	return append(list, m)
}

// message returns an item as a message, nil for one that a model is not sent.
func (item responseItem) message() (m *inputMessage, err error) {
	m = &inputMessage{}
	switch item.Type {
	case "", "message":
		m.Role = item.Role
		m.said, err = readContent[responsePart](item.Content)
	case "function_call":
		if item.CallID == "" || item.Name == "" {
			return nil, problem(http.StatusBadRequest, "a function_call needs a call_id and a name.")
		}
		call := chatCall{ID: item.CallID, Type: "function"}
		call.Function.Name, call.Function.Arguments = item.Name, item.Arguments
		m.Role, m.ToolCalls = "assistant", []chatCall{call}
	case "function_call_output":
		if item.CallID == "" {
			return nil, problem(http.StatusBadRequest, "a function_call_output needs the call_id of the call that it answers.")
		}
		m.Role, m.ToolCallID = "tool", item.CallID
		m.said, err = readContent[responsePart](item.Output)
	case "image_generation_call":
		m.Role, m.said.text = "assistant", madePicture
	case "reasoning": // what another model has thought is not sent to a model again
		return nil, nil
	default:
		return nil, problem(http.StatusBadRequest, "The item has the type %q. Allowed: message, function_call, function_call_output, image_generation_call, reasoning.", shorten(item.Type))
	}
	return m, err
}
