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

// The same as responses: stateless with tools and pictures, as a stream, and in a session.
const response = await client.responses.create({ model, instructions: "Be brief.", input: "alone" });
assert.equal(response.output_text, "echo: alone");
assert.equal(response.status, "completed");
assert.ok(response.usage.total_tokens > 0);
const functions = [{ type: "function", name: "weather", strict: true, parameters: { type: "object", properties: {}, required: [], additionalProperties: false } }];
const input = [{ role: "user", content: "call" }];
const calling = await client.responses.create({ model, input, tools: functions });
const called = calling.output.find((item) => item.type === "function_call");
assert.equal(called.name, "weather");
input.push(...calling.output, { type: "function_call_output", call_id: called.call_id, output: "rain" });
assert.equal((await client.responses.create({ model, input, tools: functions })).output_text, "It says: rain");

const types = [];
let written = "";
for await (const event of await client.responses.create({ model, input: "in pieces", stream: true })) {
	if (!types.includes(event.type)) types.push(event.type);
	if (event.type === "response.output_text.delta") written += event.delta;
	if (event.type === "response.completed") assert.equal(event.response.output[0].content[0].text, written);
}
assert.equal(written, "echo: in pieces");
assert.deepEqual(types, ["created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
	"content_part.done", "output_item.done", "completed"].map((name) => "response." + name));
const helper = client.responses.stream({ model, input: [{ role: "user", content: "call" }], tools: functions });
assert.equal((await helper.finalResponse()).output[0].name, "weather");
const parsed = await client.responses.parse({ model, input: "json", text: { format: { type: "json_schema", name: "a", schema: { type: "object" } } } });
assert.equal(parsed.output_text, '{"a":1}');

const begun = await client.responses.create({ model, conversation: "task-3", input: "first" });
assert.equal(begun.conversation.id, "api:task-3");
const gone = client.responses.stream({ model, previous_response_id: begun.id, input: "second" });
assert.equal((await gone.finalResponse()).output_text, "echo: second");
await assert.rejects(
	client.responses.create({ model, previous_response_id: begun.id, input: "third" }),
	(e) => e instanceof OpenAI.BadRequestError && e.param === "previous_response_id" && e.code === "previous_response_not_found",
);
await assert.rejects(
	client.responses.create({ model, input: "search", tools: [{ type: "web_search" }] }),
	(e) => e instanceof OpenAI.BadRequestError && e.param === "tools[0]",
);

// Pictures of answers, whole and as a stream.
const png = "iVBORw0KGgogYW5kIG1vcmU=";
for (const who of [{}, { user: "painter" }]) {
	const drawn = await client.chat.completions.create({ model, ...who, messages: say("draw") });
	assert.equal(drawn.choices[0].message.images[0].image_url.url, "data:image/png;base64," + png);
	const drawing = await client.chat.completions.create({ model, ...who, messages: say("draw"), stream: true });
	const urls = [];
	for await (const chunk of drawing) for (const image of chunk.choices[0]?.delta.images ?? []) urls.push(image.image_url.url);
	assert.deepEqual(urls, ["data:image/png;base64," + png]);
	const picture = await client.responses.create({ model, ...who, input: "draw" });
	assert.equal(picture.output.find((item) => item.type === "image_generation_call").result, png);
	const painted = await client.responses.stream({ model, ...who, input: "draw" }).finalResponse();
	assert.equal(painted.output.find((item) => item.type === "image_generation_call").result, png);
	assert.equal(painted.output_text, "Here it is.");
}

// What a session has answered can be read again, until it is deleted.
const kept = await client.responses.create({ model, user: "task-4", input: "keep this", metadata: { step: "1" } });
const read = await client.responses.retrieve(kept.id);
assert.equal(read.output_text, "echo: keep this");
assert.deepEqual([read.status, read.metadata], ["completed", { step: "1" }]);
await client.responses.delete(kept.id);
await assert.rejects(client.responses.retrieve(kept.id), (e) => e instanceof OpenAI.NotFoundError);

console.log("the official client understands the gateway");
