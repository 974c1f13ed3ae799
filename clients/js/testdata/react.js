// Mounts a component that is connected to an actor, has it go to another actor, and unmounts it: node react.js URL TOKEN. It prints what the component sees.
import { createElement } from "react";
import { create } from "react-test-renderer";
import { useActor } from "@greenroom/client/react";

const seen = [];
let watch = () => {};

function Ledger({ name }) {
  const now = useActor(process.argv[2], { type: "ledger", key: name }, { token: process.argv[3] });
  if (seen.at(-1) !== now.state) seen.push(now.state);
  watch(now);
  return now.state;
}

// rendered returns what the component sees when it is connected by another connection than one.
const rendered = (than) => new Promise((done) => {
  watch = ({ connection, state }) => { if (connection && connection !== than && state === "connected") done(connection); };
});

let next = rendered(null);
const root = create(createElement(Ledger, { name: "a" }));
const first = await next;
console.log((await first.call("add", "ash")).word, seen.join(" "));
root.update(createElement(Ledger, { name: "a" }));
console.log(first.state);
next = rendered(first);
root.update(createElement(Ledger, { name: "b" }));
const second = await next;
console.log(first.state, second.state, root.toJSON());
root.unmount();
const over = new Promise((done) => { if (second.state === "closed") done(); else second.onState(done); });
await over;
console.log(await second.call("add", "elm").catch((err) => err.code));
process.exit(0);
