#!/usr/bin/env node
// Writes the types of a host's actors for TypeScript: greenroom-types http://127.0.0.1:6420 > actors.ts. The environment's GREENROOM_TOKEN is the bearer token, if
// the host needs one. docs/javascript.md tells how they are used.

/** @typedef {{ [keyword: string]: any }} Schema JSON Schema, as host.ActionInfo has it */

// What a name may be that stands in TypeScript as it is.
const plain = /^[A-Za-z_$][\w$]*$/;

// Names that a type may not have.
const reserved = ("Actors any async await bigint boolean break case catch class const continue debugger default delete do else enum export extends false finally for function if implements " +
  "import in instanceof interface let never new null number object package private protected public return static string super switch symbol this throw true try typeof undefined unknown var void " +
  "while with yield").split(" ");

/** @param {string} name */
const member = (name) => plain.test(name) ? name : JSON.stringify(name);

/**
 * Returns a type.
 * @param {Schema | null} schema null for nothing
 * @param {(name: string) => string} named returns what a definition is called
 * @param {string} indent
 * @returns {string}
 */
function typeOf(schema, named, indent) {
  if (schema === null) return "void";
  if (schema.$ref) return named(schema.$ref.replace("#/$defs/", ""));
  if (schema.anyOf) return schema.anyOf.map((/** @type {Schema} */ s) => typeOf(s, named, indent)).join(" | ");
  switch (schema.type) {
    case "integer": return "number";
    case "array": {
      const of = typeOf(schema.items, named, indent);
      return of.includes("|") ? `(${of})[]` : `${of}[]`;
    }
    case "object": return objectOf(schema, named, indent);
  }
  return schema.type ?? "any";
}

/**
 * @param {Schema} schema @param {(name: string) => string} named @param {string} indent
 * @returns {string}
 */
function objectOf(schema, named, indent) {
  if (schema.additionalProperties) return `{ [name: string]: ${typeOf(schema.additionalProperties, named, indent)} }`;
  const members = Object.entries(schema.properties).map(([name, of]) =>
    `${indent}  ${member(name)}${schema.required?.includes(name) ? "" : "?"}: ${typeOf(of, named, indent + "  ")};\n`);
  return members.length ? `{\n${members.join("")}${indent}}` : "{}";
}

/**
 * Returns a definition, and those that it refers to, as a text.
 * @param {Schema} defs @param {string} name @param {Set<string>} seen @returns {string}
 */
function written(defs, name, seen = new Set()) {
  if (seen.has(name)) return "";
  seen.add(name);
  const text = JSON.stringify(defs[name]);
  return name + text + Array.from(text.matchAll(/"#\/\$defs\/([^"]*)"/g), (ref) => written(defs, ref[1], seen)).join("");
}

/**
 * Returns the module that declares the types of a host, by the answer of GET /types.
 * @param {{ types: { name: string, other?: boolean, actions: { name: string, args: Schema | null, result: Schema | null }[] }[] }} description
 */
function moduleOf(description) {
  /** @type {string[]} of the types that occur more than once */
  const definitions = [];
  /** @type {Map<string, string>} their names, by what they are */
  const names = new Map();
  const taken = new Set(reserved);
  /** @param {Schema | null} schema @param {string} indent */
  const value = (schema, indent) => {
    /** @param {string} name @returns {string} */
    const named = (name) => {
      const whole = written(schema?.$defs, name);
      let known = names.get(whole);
      if (known) return known;
      const plainly = name.replace(/[^\w$]/g, "_");
      known = plainly;
      for (let n = 2; taken.has(known); n++) known = plainly + n;
      taken.add(known);
      names.set(whole, known);
      definitions.push(`export type ${known} = ${typeOf(schema?.$defs[name], named, "")};\n`);
      return known;
    };
    return typeOf(schema, named, indent);
  };
  let actors = "";
  for (const type of description.types) {
    actors += `  ${member(type.name)}: {\n`;
    for (const action of type.actions) {
      actors += `    ${member(action.name)}: { args: ${value(action.args, "    ")}; result: ${value(action.result, "    ")} };\n`;
    }
    if (type.other) actors += "    [action: string]: { args: any; result: any };\n";
    actors += "  };\n";
  }
  return `// Written by greenroom-types. Dates are texts as in RFC 3339, and bytes are texts in base64.\n\n${definitions.join("\n")}${definitions.length ? "\n" : ""}` +
    `/** What may be called of the actors of each type. */\nexport interface Actors {\n${actors}}\n`;
}

/** @param {string} base */
async function main(base) {
  const url = new URL(base);
  url.pathname = url.pathname.replace(/\/$/, "") + "/types";
  const token = process.env.GREENROOM_TOKEN;
  const response = await fetch(url, { headers: token ? { Authorization: `Bearer ${token}` } : {} });
  if (!response.ok) throw new Error(`${url} answers ${response.status}: ${await response.text()}`);
  process.stdout.write(moduleOf(await response.json()));
}

if (process.argv.length !== 3) {
  console.error("usage: greenroom-types URL > actors.ts");
  process.exit(2);
}
main(process.argv[2]).catch((err) => {
  console.error(`greenroom-types: ${err.message}${err.cause ? `: ${err.cause.message}` : ""}`);
  process.exit(1);
});
