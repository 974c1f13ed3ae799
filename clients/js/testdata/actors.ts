// Written by greenroom-types. Dates are texts as in RFC 3339, and bytes are texts in base64.

export type tree = {
  "a note"?: string;
  branches: tree[];
  height: number | null;
  name: string;
  planted: string | null;
};

export type class_tree = {
  Next: class_tree | null;
  Of: tree;
};

export type object2 = {
  In: object2 | null;
  Tree: class_tree;
};

export type class_int = {
  Next: class_int | null;
  Of: number;
};

/** What may be called of the actors of each type. */
export interface Actors {
  garden: {
    any: { args: any; result: any };
    "by-name": { args: void; result: { [name: string]: string } };
    class: { args: object2; result: class_int };
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
