// Publishes numbers and receives them, by the example's client, until all have come; says each one that comes.

const [module, url, count] = process.argv.slice(2);
const { Client, Refused } = await import(module);
const client = new Client(url);

await client.subscribe("numbers", "n >= 0", "all");
for (const [condition, code] of [["n >=", "condition"]]) {
  const error = await client.subscribe("numbers", condition, "bad").catch((error) => error);
  if (!(error instanceof Refused) || error.code !== code) throw new Error(`not refused as it should be: ${error}`);
}
const publishing = (async () => {
  for (let n = 0; n < Number(count); n += 2) await client.publish("numbers", [{ n }, { n: n + 1 }]);
})();
const leaving = new AbortController();
let came = 0;
for await (const event of client.events("all", { signal: leaving.signal })) {
  console.log(event.event.n);
  if (came % 10 === 9) await client.acknowledge("all", event);
  if (++came === Number(count)) leaving.abort();
}
await publishing;
