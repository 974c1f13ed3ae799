package txntest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// Replay runs a script of transactions, as the random test prints it, against an empty
// engine and against the oracle. NAME is any word, MODE is serial or snapshot:
//
//	begin NAME
//	set NAME K V
//	clear NAME K
//	clearrange NAME K K
//	atomic NAME MUTATION K V
//	get NAME MODE K
//	scan NAME MODE START END LIMIT forward|reverse
//	key NAME MODE K true|false OFFSET
//	commit NAME
//	cancel NAME
//	engine set K V
//	engine clear K
//	engine clearrange K K
//
// A transaction's first read pins its state, and must be of a key that it hasn't written.
// Those of engine are commits without a transaction. After every commit the whole state
// is compared, and whether there was a conflict: on an engine that is txn.Exact always,
// on others where what was read has another value.
func Replay(db *txn.DB, script string) error {
	r := newTxReplayer(db)
	defer r.close()
	for i, line := range strings.Split(strings.TrimSpace(script), "\n") {
		if err := r.run(line); err != nil {
			return fmt.Errorf("line %d, %s: %w", i+1, line, err)
		}
	}
	return nil
}

// A txReplayer runs the lines of a script.
type txReplayer struct {
	db    *txn.DB
	model *txModel
	txs   map[string]*txn.Tx
	words suite.Words // what is left of the current line
	// conflicts counts those that were wanted and found.
	conflicts int
}

func newTxReplayer(db *txn.DB) *txReplayer {
	return &txReplayer{db: db, model: newTxModel(), txs: map[string]*txn.Tx{}}
}

func (r *txReplayer) close() {
	for _, tx := range r.txs {
		tx.Cancel()
	}
}

func (r *txReplayer) run(line string) error {
	r.words.Left = line
	verb := r.words.Word()
	if verb == "engine" {
		w, err := r.write(r.words.Word())
		if err != nil {
			return err
		}
		if err := r.db.Engine().Commit(ctx, &kv.Commit{Ops: []kv.Op{w.op}, Durability: kv.Applied}); err != nil {
			return err
		}
		r.model.commit([]txWrite{w})
		return r.compare()
	}
	name := r.words.Word()
	if verb == "begin" {
		tx, err := r.db.Begin(ctx)
		if err != nil {
			return err
		}
		r.txs[name] = tx
		r.model.begin(name)
		return nil
	}
	tx, m := r.txs[name], r.model.open[name]
	if tx == nil {
		return fmt.Errorf("no transaction %q", name)
	}
	switch verb {
	case "get":
		return r.get(tx, m)
	case "scan":
		return r.scan(tx, m)
	case "key":
		return r.key(tx, m)
	case "commit", "cancel":
		delete(r.txs, name)
		delete(r.model.open, name)
		if verb == "cancel" {
			tx.Cancel()
			return nil
		}
		return r.commit(tx, m)
	}
	w, err := r.write(verb)
	if err == nil {
		err = w.do(tx)
	}
	if err == nil {
		m.write(w)
	}
	return err
}

// write takes a write.
func (r *txReplayer) write(verb string) (w txWrite, err error) {
	if verb == "atomic" {
		w.atomic = true
		if w.mutation, err = parseMutation(r.words.Word()); err != nil {
			return w, err
		}
	}
	if w.op.Key, err = r.words.Bytes(); err != nil {
		return w, err
	}
	switch verb {
	case "clear":
		w.op.Kind = kv.OpClear
		return w, nil
	case "clearrange":
		w.op.Kind = kv.OpClearRange
	case "set", "atomic":
	default:
		return w, fmt.Errorf("unknown verb %q", verb)
	}
	w.op.Value, err = r.words.Bytes()
	return w, err
}

func parseMutation(name string) (txn.Mutation, error) {
	for m := txn.Mutation(0); m.Valid(); m++ {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, fmt.Errorf("unknown mutation %q", name)
}

// do writes in a transaction.
func (w txWrite) do(tx *txn.Tx) error {
	switch {
	case w.atomic:
		return tx.Atomic(w.mutation, w.op.Key, w.op.Value)
	case w.op.Kind == kv.OpClear:
		return tx.Clear(w.op.Key)
	case w.op.Kind == kv.OpClearRange:
		return tx.ClearRange(w.op.Key, w.op.Value)
	}
	return tx.Set(w.op.Key, w.op.Value)
}

// reader takes the mode of a read.
func (r *txReplayer) reader(tx *txn.Tx) (from kv.Reader, serial bool, err error) {
	switch mode := r.words.Word(); mode {
	case "serial":
		return tx, true, nil
	case "snapshot":
		return tx.Snapshot(), false, nil
	default:
		return nil, false, fmt.Errorf("unknown mode %q", mode)
	}
}

func (r *txReplayer) get(tx *txn.Tx, m *txModelTx) error {
	from, serial, err := r.reader(tx)
	if err != nil {
		return err
	}
	key, err := r.words.Bytes()
	if err != nil {
		return err
	}
	want, ok := m.get(key, serial)
	got, err := from.Get(ctx, key, nil)
	switch {
	case ok && (err != nil || string(got) != want):
		return fmt.Errorf("got %s, %w, want %s", suite.Brief(string(got)), err, suite.Brief(want))
	case !ok && !errors.Is(err, kv.ErrNotFound):
		return fmt.Errorf("got %s, %w, want no value", suite.Brief(string(got)), err)
	}
	return nil
}

func (r *txReplayer) scan(tx *txn.Tx, m *txModelTx) error {
	from, serial, err := r.reader(tx)
	if err != nil {
		return err
	}
	var rng kv.Range
	if rng.Start, err = r.words.Bytes(); err != nil {
		return err
	}
	if rng.End, err = r.words.Bytes(); err != nil {
		return err
	}
	if rng.Limit, err = strconv.Atoi(r.words.Word()); err != nil {
		return err
	}
	rng.Reverse = r.words.Word() == "reverse"
	var want, got []string
	for _, k := range m.scan(rng, serial) {
		want = append(want, fmt.Sprintf("%q=%q", k, m.seen[k]))
	}
	for e, err := range from.Scan(ctx, rng) {
		if err != nil {
			return err
		}
		got = append(got, fmt.Sprintf("%q=%q", e.Key, e.Value))
	}
	if g, w := strings.Join(got, " "), strings.Join(want, " "); g != w {
		return fmt.Errorf("got  %s\nwant %s", g, w)
	}
	return nil
}

func (r *txReplayer) key(tx *txn.Tx, m *txModelTx) error {
	_, serial, err := r.reader(tx)
	if err != nil {
		return err
	}
	var sel txn.Selector
	if sel.Key, err = r.words.Bytes(); err != nil {
		return err
	}
	sel.OrEqual = r.words.Word() == "true"
	if sel.Offset, err = strconv.Atoi(r.words.Word()); err != nil {
		return err
	}
	get := tx.GetKey
	if !serial {
		get = tx.Snapshot().GetKey
	}
	want, ok := m.key(sel, serial)
	got, err := get(ctx, sel, nil)
	if ok && (err != nil || string(got) != want) || !ok && !errors.Is(err, kv.ErrNotFound) {
		return fmt.Errorf("got %q, %w, want %q, %v", got, err, want, ok)
	}
	return nil
}

func (r *txReplayer) commit(tx *txn.Tx, m *txModelTx) error {
	want := m.conflicts()
	err := tx.Commit(ctx)
	switch {
	case err != nil && !errors.Is(err, kv.ErrConflict):
		return err
	case exact(r.db) && want != (err != nil):
		return fmt.Errorf("got error %w, want a conflict: %v; it has read %q", err, want, m.reads)
	case err == nil && m.outdated():
		return fmt.Errorf("committed, and what it has read is not so any more: %q", m.reads)
	}
	if err != nil {
		r.conflicts++
	} else if len(m.writes) > 0 {
		r.model.commit(m.writes)
	}
	return r.compare()
}

// compare compares the newest states.
func (r *txReplayer) compare() error {
	got := suite.Model{}
	for e, err := range r.db.Engine().Scan(ctx, kv.Range{}) {
		if err != nil {
			return err
		}
		got[string(e.Key)] = string(e.Value)
	}
	if g, w := fmt.Sprintf("%q", got), fmt.Sprintf("%q", r.model.state); g != w {
		return fmt.Errorf("the store is\n%s, want\n%s", g, w)
	}
	return nil
}
