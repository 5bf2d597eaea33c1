package agentloop

import (
	"time"

	"parley/agentloop/window"
	"parley/conversation"
	"parley/llm"
)

// maxStepError is how many characters of an error a step keeps; in full it is
// in the log.
const maxStepError = 300

// modelStep is an attempt with what was sent as a step of the run.
func modelStep(a llm.Attempt, sent window.List) conversation.Step {
	step := conversation.Step{
		Kind:       conversation.StepModel,
		Name:       a.Model,
		At:         a.At,
		Took:       a.Took,
		FirstByte:  a.FirstByte,
		Prompt:     a.Usage.Prompt,
		Completion: a.Usage.Completion,
		Shown:      int64(len(sent.Messages)) - 1, // the first is the system prompt
		Left:       sent.Left,
		Window:     sent.Tokens,

		FinishReason: cutReason(a.FinishReason),
	}
	if a.Err != nil {
		step.Error = window.OneLine(a.Err.Error(), maxStepError)
	}
	return step
}

func toolStep(call ToolCall, began time.Time) conversation.Step {
	return conversation.Step{
		Kind:   conversation.StepTool,
		Name:   call.Name,
		At:     began,
		Took:   call.Took,
		CallID: call.ID,
		Error:  call.Error,
	}
}
