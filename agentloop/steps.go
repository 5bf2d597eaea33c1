package agentloop

import (
	"time"

	"parley/conversation"
	"parley/llm"
)

// maxStepError is how many characters of an error a step keeps; in full it is
// in the log.
const maxStepError = 300

// modelStep is an attempt with a listing as a step of the run.
func modelStep(a llm.Attempt, sent listing) conversation.Step {
	step := conversation.Step{
		Kind:       conversation.StepModel,
		Name:       a.Model,
		At:         a.At,
		Took:       a.Took,
		FirstByte:  a.FirstByte,
		Prompt:     a.Usage.Prompt,
		Completion: a.Usage.Completion,
		Shown:      int64(len(sent.messages)) - 1, // the first is the system prompt
		Left:       sent.left,
		Window:     sent.tokens,

		FinishReason: cutReason(a.FinishReason),
	}
	if a.Err != nil {
		step.Error = oneLine(a.Err.Error(), maxStepError)
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
