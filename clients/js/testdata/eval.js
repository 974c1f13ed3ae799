// Evaluates each line of the input, and prints what it is in JSON. client is the module of the client.
import { createInterface } from "node:readline";
import * as client from "../greenroom.js";
import * as kills from "./kills.js";

Object.assign(globalThis, { client, kills });
for await (const line of createInterface({ input: process.stdin })) {
  const value = await (0, eval)(line);
  console.log(JSON.stringify(value ?? null));
}
