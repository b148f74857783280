// Publishes speeds on roads and shows the slow ones: node roads.mjs http://localhost:7380
// With a second argument, a number, it ends after so many events.

import { Client } from "./fieldfare.mjs";

const [url = "http://localhost:7380", count = "Infinity"] = process.argv.slice(2);
const client = new Client(url, { token: process.env.FIELDFARE_TOKEN });
await client.subscribe("traffic", "speed < 25", "slow-roads");

const leaving = new AbortController();
const speeds = [12, 80, 24, 25, 7];
const publishing = (async () => {
  for (const speed of speeds) await client.publish("traffic", { road: "A10", speed });
})();

let shown = 0;
for await (const event of client.events("slow-roads", { signal: leaving.signal })) {
  console.log(JSON.stringify(event.event));
  await client.acknowledge("slow-roads", event);
  if (++shown === Number(count)) leaving.abort();
}
await publishing;
