// A program with the types of a host, which the generator has written.
import { client } from "@greenroom/client";
import { useActor } from "@greenroom/client/react";
import type { Actors } from "./actors.js";

const host = client<Actors>("https://example.com", { token: "t" });
const id: number = (await host.invoke({ type: "ledger", key: "a" }, "add", "word")).id;
const ledger = host.connect({ type: "ledger", key: "a" });
const words: string[] = (await ledger.call("entries", id)).map((e) => e.word);
const nothing: void = await ledger.call("leave");
const branch: string | undefined = (await host.invoke({ type: "garden", key: "a" }, "grow", { name: "ash", branches: [], height: null, planted: "2026-01-01T00:00:00Z" })).branches[0]?.name;
// @ts-expect-error: there is no such type
host.invoke({ type: "ledgers", key: "a" }, "add", "word");
// @ts-expect-error: there is no such action
host.invoke({ type: "ledger", key: "a" }, "subtract", "word");
// @ts-expect-error: a word is a text
ledger.call("add", 1);
// @ts-expect-error: an action's result has its type
const wrong: string = await ledger.call("entries", 1);

export function Ledger() {
  const { connection, state } = useActor<Actors["ledger"]>("https://example.com", { type: "ledger", key: "a" });
  // @ts-expect-error: a word is a text
  connection?.call("add", 2);
  return [state, words, nothing, branch, wrong];
}
