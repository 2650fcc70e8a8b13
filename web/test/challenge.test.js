import assert from "node:assert/strict";
import { copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

/** A widget that answers whatever it is asked, beside the script, as the gateway serves them. */
const WIDGET = `
  const set = () => {};
  globalThis.$altcha = { algorithms: { set }, defaults: { set }, i18n: { get: () => ({}), set } };
`;

/** As much of a document as the script touches. */
class Node extends EventTarget {
  attributes = {};

  append() {}

  setAttribute(name, value) {
    this.attributes[name] = value;
  }

  replaceChildren(...children) {
    for (const child of children) {
      const detail = { payload: `proof of ${JSON.parse(child.attributes.challenge)}` };
      queueMicrotask(() => child.dispatchEvent(new CustomEvent("verified", { detail })));
    }
  }
}

test("what did not come is asked for again", async (t) => {
  const folder = await mkdtemp(join(tmpdir(), "challenge-"));
  t.after(() => rm(folder, { recursive: true }));
  const script = join(folder, "challenge.js");
  await copyFile(new URL("../challenge.js", import.meta.url), script);
  await writeFile(join(folder, "package.json"), '{ "type": "module" }');
  globalThis.document = { head: new Node(), createElement: () => new Node() };
  const { answer } = await import(pathToFileURL(script));
  const host = new Node();
  for (let n = 0; n < 2; n += 1) await assert.rejects(answer(host, "C", "en", {}), /altcha/);
  await writeFile(join(folder, "altcha.js"), WIDGET);
  assert.equal(await answer(host, "C", "en", {}), "proof of C");
  assert.equal(await answer(host, "D", "en", {}), "proof of D");
});
