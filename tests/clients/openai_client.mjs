// Runs the cases with the official JavaScript client and prints what it saw: a JSON line each. It judges nothing.
//
//     node openai_client.mjs cases.json '{"open": "http://127.0.0.1:8000", ...}' PACKAGE
//
// The client is loaded from the directory PACKAGE, because it is installed once into a cache and never beside this file.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [casesFile, urlsJson, directory] = process.argv.slice(2);
const { default: OpenAI } = await import(pathToFileURL(`${directory}/index.mjs`));
const urls = JSON.parse(urlsJson);

/** One name for what both languages have; the cases use Python's. */
const PYTHON_NAMES = { APIConnectionTimeoutError: "APITimeoutError" };

function newClient(item) {
  const client = new OpenAI({
    baseURL: `${urls[item.server ?? "open"]}/v1`,
    apiKey: item.api_key ?? "none",
    maxRetries: item.max_retries ?? 0,
    timeout: (item.timeout_s ?? 60) * 1000,
    fetch: (...given) => {
      client.numAttempts += 1;
      return fetch(...given);
    },
  });
  client.numAttempts = 0;
  return client;
}

function create(client, item, stream) {
  const resource = item.call === "chat" ? client.chat.completions : client.completions;
  const usage = stream ? { stream_options: { include_usage: true } } : {};
  const body = { model: "alphabet", ...usage, ...item.request, ...item.extra, stream };
  return resource.create(body, { headers: item.headers });
}

function ofUsage(usage) {
  return usage && {
    prompt: usage.prompt_tokens,
    completion: usage.completion_tokens,
    total: usage.total_tokens,
    cached: usage.prompt_tokens_details.cached_tokens,
  };
}

function ofLogprobs(logprobs) {
  if (!logprobs) return null;
  if (logprobs.content) {
    return logprobs.content.map((each) => ({
      token: each.token,
      logprob: each.logprob,
      top: each.top_logprobs.map((top) => top.token),
    }));
  }
  return logprobs.tokens.map((token, at) => ({
    token,
    logprob: logprobs.token_logprobs[at],
    top: Object.keys(logprobs.top_logprobs?.[at] ?? {}).sort(),
  }));
}

function ofAnswer(answer) {
  return {
    id: answer.id.split("-")[0],
    model: answer.model,
    roles: answer.choices.map((choice) => choice.message?.role ?? null),
    texts: answer.choices.map((choice) => choice.message?.content ?? choice.text),
    finish_reasons: answer.choices.map((choice) => choice.finish_reason),
    logprobs: answer.choices.map((choice) => ofLogprobs(choice.logprobs)),
    usage: ofUsage(answer.usage),
    request_id: answer._request_id,
  };
}

async function ofStream(stream, leaveAfter) {
  const heads = new Set();
  const choices = [];
  const usages = [];
  let numChunks = 0;
  for await (const chunk of stream) {
    heads.add(`${chunk.id} ${chunk.created} ${chunk.model}`);
    if (chunk.usage) usages.push(ofUsage(chunk.usage));
    for (const each of chunk.choices) {
      const choice = (choices[each.index] ??= { role: null, text: "", reason: null, logprobs: null });
      if (choice.reason !== null) throw new Error("a choice went on after its finish reason");
      choice.role ??= each.delta?.role ?? null;
      choice.text += each.delta ? (each.delta.content ?? "") : each.text;
      choice.reason = each.finish_reason;
      if (each.logprobs) choice.logprobs = [...(choice.logprobs ?? []), ...ofLogprobs(each.logprobs)];
    }
    numChunks += 1;
    if (numChunks === leaveAfter) {
      stream.controller.abort();
      return { left: true };
    }
  }
  if (heads.size !== 1) throw new Error("chunks of one stream differ in what stays the same");
  const [id, , model] = [...heads][0].split(" ");
  const totals = usages.map((usage) => usage.total);
  return {
    id: id.split("-")[0],
    model,
    roles: choices.map((choice) => choice.role),
    texts: choices.map((choice) => choice.text),
    finish_reasons: choices.map((choice) => choice.reason),
    logprobs: choices.map((choice) => choice.logprobs),
    usage: usages.at(-1) ?? null,
    usage_grows: totals.length > 1 && totals.every((total, at) => at === 0 || total >= totals[at - 1]),
  };
}

function ofError(error) {
  const name = error.constructor.name;
  return {
    error: {
      class: PYTHON_NAMES[name] ?? name,
      status: error.status ?? null,
      param: error.param ?? null,
      code: error.code ?? null,
      type: error.type ?? null,
      retry_after: Number(error.headers?.get("retry-after") ?? 0) >= 1,
    },
  };
}

/** Others are served meanwhile; the case begins once one of them speaks, or is refused. */
async function beginCrowd(client, { size, until, request }) {
  let happens;
  const happened = new Promise((resolve) => (happens = resolve));
  const one = async () => {
    try {
      const body = { model: "alphabet", ignore_eos: true, ...request, stream: true };
      for await (const _ of await client.completions.create(body, { maxRetries: 0 })) {
        if (until === "speaks") happens();
      }
    } catch (error) {
      if (!(error instanceof OpenAI.RateLimitError)) throw error;
      if (until === "refused") happens();
    }
  };
  const others = Array.from({ length: size }, one);
  await happened;
  client.numAttempts = 0;
  return others;
}

async function ask(client, item, way) {
  if (item.call === "models") {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    return { models: names };
  }
  if (item.call === "model") return { models: [(await client.models.retrieve(item.request.model)).id] };
  if (way === "stream") return ofStream(await create(client, item, true), item.leave_after_chunks);
  if (way === "whole") return ofAnswer(await create(client, item, false));
  const { data, response } = await create(client, item, false).withResponse();
  return {
    ...ofAnswer(data),
    status: response.status,
    content_type: response.headers.get("content-type"),
    retried: client.numAttempts > 1,
  };
}

async function run(item, way) {
  const client = newClient(item);
  const others = item.crowd ? await beginCrowd(client, item.crowd) : [];
  try {
    let seen;
    for (let times = item.twice ? 2 : 1; times > 0; times -= 1) seen = await ask(client, item, way);
    return seen;
  } catch (error) {
    if (!(error instanceof OpenAI.OpenAIError)) throw error;
    return ofError(error);
  } finally {
    await Promise.all(others);
  }
}

for (const item of JSON.parse(readFileSync(casesFile, "utf8"))) {
  for (const way of item.ways ?? ["whole", "stream"]) {
    console.log(JSON.stringify({ case: item.name, way, saw: await run(item, way) }));
  }
}
