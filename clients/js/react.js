// A hook for React: an actor's connection as long as a component needs it. docs/javascript.md tells how it is used.
import { useEffect, useState } from "react";
import { connect } from "./greenroom.js";

/**
 * @template {import("./greenroom.js").ActionTypes} A
 * @typedef {{ connection: import("./greenroom.js").Connection<A> | null, state: import("./greenroom.js").State, error: unknown }} Connected is what useActor returns:
 *   the connection is null until the component is mounted, and error why it is away or closed, if that is known
 */

/**
 * Connects the component to an actor from when it is mounted until it isn't. Another address, or another base URL, is another connection; other options alone are
 * those of the next one.
 * @template {import("./greenroom.js").ActionTypes} [A=import("./greenroom.js").ActionTypes]
 * @param {string | URL} baseURL
 * @param {import("./greenroom.js").Address} address
 * @param {import("./greenroom.js").ConnectOptions} [options]
 * @returns {Connected<A>}
 */
export function useActor(baseURL, address, options) {
  const [now, set] = useState(/** @type {Connected<A>} */ ({ connection: null, state: "connecting", error: undefined }));
  const base = String(baseURL);
  useEffect(() => {
    const connection = /** @type {import("./greenroom.js").Connection<A>} */ (connect(base, address, options));
    set({ connection, state: connection.state, error: undefined });
    const off = connection.onState((state, { error }) => set({ connection, state, error }));
    return () => {
      off();
      connection.close();
    };
  }, [base, address.type, address.key]);
  return now;
}
