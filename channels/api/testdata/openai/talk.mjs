// OpenAI's official client talks to the gateway whose address is given. The
// model server behind it echoes, and fails for "fail".
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: process.argv[3] });
const model = "whatever";
const say = (text) => [
	{ role: "system", content: "Be brief." },
	{ role: "user", content: "Nor is this." },
	{ role: "assistant", content: "Or this." },
	{ role: "user", content: text },
];

const models = await client.models.list();
assert.deepEqual(models.data.map((m) => m.id), ["test-model"]);

const whole = await client.chat.completions.create({ model, user: "task-1", messages: say("hello") });
assert.equal(whole.choices[0].message.content, "echo: hello");
assert.equal(whole.choices[0].message.role, "assistant");
assert.equal(whole.choices[0].finish_reason, "stop");
assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);
assert.ok(whole.usage.total_tokens > 0);

const stream = await client.chat.completions.create({
	model, user: "task-1", messages: say("hello again"), stream: true, stream_options: { include_usage: true },
});
let text = "", finish, usage;
for await (const chunk of stream) {
	text += chunk.choices[0]?.delta.content ?? "";
	finish = chunk.choices[0]?.finish_reason ?? finish;
	usage = chunk.usage ?? usage;
}
assert.equal(text, "echo: hello again");
assert.equal(finish, "stop");
assert.ok(usage.total_tokens > 0);

const helped = client.chat.completions.stream({ model, user: "task-1", messages: say("with the helper") });
assert.equal(await helped.finalContent(), "echo: with the helper");

const parts = await client.chat.completions.create({
	model,
	messages: [{ role: "user", content: [
		{ type: "text", text: "what is this?" },
		{ type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==" } },
	] }],
}, { headers: { "X-Session-Key": "api:pictures" } });
assert.match(parts.choices[0].message.content, /^echo: what is this\?/);

const once = { idempotencyKey: "once", headers: { "Idempotency-Key": "once" } };
const first = await client.chat.completions.create({ model, user: "task-2", messages: say("once") }, once);
const again = await client.chat.completions.create({ model, user: "task-2", messages: say("once") }, once);
assert.deepEqual(again.choices, first.choices);

await assert.rejects(
	client.chat.completions.create({ model, user: "telegram:chat:1", messages: say("hello") }),
	(e) => e instanceof OpenAI.PermissionDeniedError && /telegram/.test(e.message),
);
await assert.rejects(
	client.chat.completions.create({ model, user: "task-1", messages: [{ role: "system", content: "nobody speaks" }] }),
	(e) => e instanceof OpenAI.BadRequestError && e.type === "invalid_request_error",
);
await assert.rejects(
	client.chat.completions.create({ model, user: "fails", messages: say("fail") }),
	(e) => e instanceof OpenAI.InternalServerError && /\/retry/.test(e.message),
);
const failing = await client.chat.completions.create({ model, user: "fails", messages: say("fail"), stream: true });
await assert.rejects(async () => { for await (const _ of failing); }, OpenAI.APIError);

// Without a session: the client's own messages, tools and parameters, and nothing is kept.
const alone = await client.chat.completions.create({ model, temperature: 0.1, messages: say("alone") });
assert.equal(alone.choices[0].message.content, "echo: alone");
const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object", properties: {} } } }];
const asked = await client.chat.completions.create({ model, tools, messages: say("call") });
assert.equal(asked.choices[0].finish_reason, "tool_calls");
const [call] = asked.choices[0].message.tool_calls;
assert.equal(call.function.name, "weather");
const answered = await client.chat.completions.create({
	model, tools, messages: [...say("call"), asked.choices[0].message, { role: "tool", tool_call_id: call.id, content: "rain" }],
});
assert.equal(answered.choices[0].message.content, "It says: rain");
const streamed = client.chat.completions.stream({ model, tools, messages: say("call") });
assert.equal((await streamed.finalMessage()).tool_calls[0].function.name, "weather");
await assert.rejects(
	client.chat.completions.create({ model, n: 2, messages: say("twice") }),
	(e) => e instanceof OpenAI.BadRequestError && e.param === "n" && e.code === "unsupported_parameter",
);
await assert.rejects(
	new OpenAI({ baseURL: process.argv[2] + "/v1", apiKey: "wrong-wrong-wrong" }).models.list(),
	(e) => e instanceof OpenAI.AuthenticationError && e.code === "invalid_api_key",
);
assert.equal((await client.models.retrieve("test-model")).id, "test-model");

console.log("the official client understands the gateway");
