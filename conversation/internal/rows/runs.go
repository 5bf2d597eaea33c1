package rows

// Runs is a subquery for the runs of conversations, those that were imported with them among
// them.
const Runs = `(
	SELECT conversation_id, ` + runColumns + ` FROM runs UNION ALL SELECT conversation_id, ` + runColumns + ` FROM imported_runs) AS r `

const runColumns = `id, kind, status, sender, model, rounds, prompt_tokens, cached_tokens, completion_tokens, messages, error, finish_reason, new_conversation,
	instructions, agent, warnings, steps, started_at, ended_at, cost`
