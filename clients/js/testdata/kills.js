// What the tests have a client do while its host is killed. base is the host's address.

export function start(base, { connect, invoke }) {
  const ledger = { type: "ledger", key: "a/b" };
  const answers = {}; // the number of each word, and with how many it was answered
  const fed = [];
  let stopping = false, count = 0, words = 0, last = 0, resumptions = 0;
  const watchers = new Set();
  const changed = () => { for (const look of watchers) look(); };
  const until = (holds) => new Promise((done) => {
    const look = () => {
      if (!holds()) return;
      watchers.delete(look);
      done();
    };
    watchers.add(look);
    look();
  });

  const writer = connect(base, ledger);
  const reader = connect(base, ledger);
  reader.onState((state, { resumed }) => {
    if (resumed) resumptions++;
    changed();
  });
  const feed = reader.feed({ event: "entry", action: "entries", since: 0, each: (e) => { fed.push(e.id); changed(); } });

  async function loop(ask) {
    while (!stopping) {
      const word = `word ${words++}`;
      const { id } = await ask(word);
      (answers[word] ??= []).push(id);
      count++;
      last = Math.max(last, id);
      changed();
    }
  }
  const loops = [];
  for (let i = 0; i < 20; i++) loops.push(loop((word) => writer.call("add", word))); // more than a socket takes at once
  loops.push(loop((word) => invoke(base, ledger, "add", word, { retries: 1000 })));

  return {
    // answered waits for n answers more, and until the reader is there to be cut off.
    async answered(n) {
      const to = count + n;
      await until(() => count >= to && reader.state === "connected");
    },
    // finish stops, and returns what was answered and fed.
    async finish() {
      stopping = true;
      await Promise.all(loops);
      await until(() => feed.seen >= last);
      writer.close();
      reader.close();
      return { answers, fed, resumed: resumptions };
    },
  };
}
