// A client of Fieldfare in about a hundred lines, for Node 20 and later, without dependencies. docs/protocol.md explains
// what it does: publishes over HTTP, receives server-sent events, comes back after a break, and loses or doubles nothing.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

/** What the service answered when it did not do what it was asked for; `code` says why, as in docs/protocol.md. */
export class Refused extends Error {
  constructor(problem) {
    super(problem.detail);
    Object.assign(this, { code: problem.code, status: problem.status });
  }
}

const PASSING = new Set([429, 500, 503, 504, 507]); // to be tried again later

export class Client {
  #url;
  #headers;
  #publisher = randomUUID(); // with numbers: what is sent again because no answer came is accepted once
  #sequences = new Map(); // of each topic, the number of the next event
  #sending = new Map(); // of each topic, the publication that is on its way: the next waits for it

  constructor(url, { token } = {}) {
    this.#url = url.replace(/\/$/, "");
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
  }

  /** Publish an event or an array of them; done when they are stored. */
  publish(topic, events) {
    const before = this.#sending.get(topic) ?? Promise.resolve();
    const sent = before.catch(() => {}).then(() => this.#publish(topic, Array.isArray(events) ? events : [events]));
    this.#sending.set(topic, sent);
    return sent;
  }

  async #publish(topic, events) {
    const sequence = this.#sequences.get(topic) ?? 0;
    const numbers = { "Fieldfare-Publisher": this.#publisher, "Fieldfare-Sequence": `${sequence}` };
    const accepted = await this.#request("POST", `/v1/topics/${encodeURIComponent(topic)}/events`, events, numbers);
    this.#sequences.set(topic, sequence + events.length);
    return accepted;
  }

  /** Make a subscription, or go on with the one of this name. */
  subscribe(topic, condition, name, options = {}) {
    return this.#request("POST", "/v1/subscriptions", { topic, condition, name, ...options });
  }

  unsubscribe(name) {
    return this.#request("DELETE", `/v1/subscriptions/${encodeURIComponent(name)}`);
  }

  /** All up to an event has been dealt with, and does not come again. */
  acknowledge(name, { position, log }) {
    return this.#request("POST", `/v1/subscriptions/${encodeURIComponent(name)}/ack`, { position, log });
  }

  /** The events of a subscription as they come, for ever: { position, log, id, at, event, payload?, envelope? }. */
  async *events(name, { signal, onNotice = () => {} } = {}) {
    let last = null; // the position that was given last, with its log: from there a new connection goes on
    while (!signal?.aborted) {
      try {
        for await (const { id, event, data } of this.#stream(name, last, signal)) {
          last = id ?? last;
          if (event === "notice") {
            onNotice(JSON.parse(data));
            continue;
          }
          const delivery = JSON.parse(data);
          if (delivery.payload !== undefined) delivery.payload = Buffer.from(delivery.payload, "base64");
          yield { ...delivery, log: id.split("@")[1] ?? "" };
        }
      } catch (error) {
        if (error instanceof Refused && !PASSING.has(error.status)) throw error;
      }
      if (!signal?.aborted) await sleep(1000, undefined, { signal }).catch(() => {});
    }
  }

  /** One connection: lines of `id:`, `event:` and `data:`, ended by an empty one; those that begin with `:` say nothing. */
  async *#stream(name, last, signal) {
    const headers = { ...this.#headers, Accept: "text/event-stream", ...(last === null ? {} : { "Last-Event-ID": last }) };
    const response = await fetch(`${this.#url}/v1/subscriptions/${encodeURIComponent(name)}/stream`, { headers, signal });
    if (!response.ok) throw new Refused(await response.json());
    if (response.status === 204) throw new Refused({ code: "taken over", status: 204, detail: "another reader took over" });
    let rest = "";
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      const parts = (rest + chunk).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const fields = Object.fromEntries(
          part.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]),
        );
        if (fields.data !== undefined) yield fields;
      }
    }
  }

  /** Ask until there is an answer: every request here may be sent twice without harm. */
  async #request(method, path, body, headers = {}) {
    for (let seconds = 0.1; ; seconds = Math.min(2 * seconds, 10)) {
      const content = body === undefined ? {} : { body: JSON.stringify(body) };
      const all = { ...this.#headers, "Content-Type": "application/json", ...headers };
      const response = await fetch(this.#url + path, { method, headers: all, ...content }).catch(() => null);
      if (response?.ok) return response.status === 204 ? undefined : response.json();
      if (response !== null && !PASSING.has(response.status)) throw new Refused(await response.json());
      await sleep(1000 * Number(response?.headers.get("Retry-After") ?? seconds));
    }
  }
}
