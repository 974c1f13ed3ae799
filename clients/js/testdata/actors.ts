// Written by greenroom-types. Dates are texts as in RFC 3339, and bytes are texts in base64.

export type tree = {
  "a note"?: string;
  branches: tree[];
  height: number | null;
  name: string;
  planted: string;
};

/** What may be called of the actors of each type. */
export interface Actors {
  garden: {
    any: { args: any; result: any };
    "by-name": { args: void; result: { [name: string]: string } };
    grow: { args: tree; result: tree };
    [action: string]: { args: any; result: any };
  };
  ledger: {
    add: { args: string; result: {
      id: number;
      word: string;
    } };
    entries: { args: number; result: {
      id: number;
      word: string;
    }[] };
    leave: { args: void; result: void };
  };
}
