// A program that the types are tried with.
import { connect, invoke, GreenroomError, type Connection } from "@greenroom/client";

const room: Connection = connect("https://example.com", { type: "chat", key: "lobby" }, { params: () => ({ name: "Ann" }), token: async () => "t" });
const off: () => void = room.on("message", (m: { text: string }) => m.text.length);
const seen: number | undefined = room.feed({ event: "message", action: "history", since: 0, each: (m: { id: number }) => { m.id; } }).seen;
// @ts-expect-error: an actor has a key
connect("https://example.com", { type: "chat" });
// @ts-expect-error: retries are of invoke alone
room.call("say", {}, { retries: 1 });
try {
  await invoke("https://example.com", { type: "chat", key: "lobby" }, "say", { text: "hello" }, { retries: 1, signal: AbortSignal.timeout(1000) });
} catch (err) {
  if (err instanceof GreenroomError && err.retryable) off();
  else throw [err, seen];
}
