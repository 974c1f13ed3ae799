package vfs

import (
	"bytes"
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// Rewriting a database of the older form. Chunks go first, in steps: each puts some
// under today's keys and removes them under the older ones. The metadata records
// change last, together. Until then a reader looks for a chunk under today's key and
// then under the older one, and finds the same content after every step; so a crash
// or a failure anywhere leaves the database readable, and the next move goes on.
//
// A key of today's is never longer than the older one. So no step makes the actor
// grow, and a full quota, or one that is exceeded, doesn't stop it.

// takeOver is called by the writer before the store first changes: a database of
// the older form is rewritten. Readers keep on reading meanwhile.
func (db *database) takeOver(ctx context.Context) error {
	old, ok := db.source.(*namedSource)
	if !ok {
		return nil
	}
	if err := db.move(ctx, old, &db.main); err != nil {
		return err
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	db.source = old.source
	if db.main.Reader == actorstore.Reader(old) {
		db.main.Reader = old.source
	}
	return nil
}

// move rewrites the file f of old, if it is there in the older form. It leaves the
// other files alone, except that nothing is left of any when the main file is moved:
// its journal was moved or collected when it was opened, and the others are dead.
func (db *database) move(ctx context.Context, old *namedSource, f *chunked.File) error {
	name := old.file(f.Tag)
	there, err := has(ctx, old.source, f.Layout.AppendNamedFileMeta(nil, name))
	if err != nil || !there {
		return err
	}
	done, err := has(ctx, old.source, f.Layout.AppendFileMeta(nil, f.Tag))
	if err != nil {
		return err
	}
	m := mover{db: db, raw: old.source, f: f, keep: chunked.Count(f.Stored())}
	if done {
		m.keep = 0 // today's form is the file, and this is not it
	}
	if err := m.run(ctx, name); err != nil {
		return err
	}
	b := db.fresh(batch.Ordered)
	if f.Tag == actorstore.FileMain {
		for tag := actorstore.FileJournal; tag <= actorstore.FileSHM; tag++ {
			stageNamedRemoval(&b.Group, f.Layout, old.file(tag))
		}
	}
	if !done {
		b.Final().PutPrior(f.Layout.AppendFileMeta(nil, f.Tag), chunked.AppendMeta(nil, f.Stored()), batch.Absent)
	}
	b.Final().Delete(f.Layout.AppendNamedFileMeta(nil, name))
	return db.apply(ctx, b, false)
}

// has says whether key is stored.
func has(ctx context.Context, r actorstore.Reader, key []byte) (bool, error) {
	_, err := r.Get(ctx, key, nil)
	if errors.Is(err, actorstore.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// stageNamedRemoval removes a file of the older form, its metadata record first.
func stageNamedRemoval(g *batch.Group, l actorstore.Layout, name string) {
	g.Delete(l.AppendNamedFileMeta(nil, name))
	start, end := l.NamedFileChunks(name)
	g.DeleteRange(start, end)
}

// A mover moves the chunks of one file.
type mover struct {
	db   *database
	raw  actorstore.Reader
	f    *chunked.File
	keep int64 // chunks from this number on are beyond the file's end, and removed

	chunks []movedChunk
	values []byte
	key    []byte // scratch
}

// A movedChunk is a chunk under its older key.
type movedChunk struct {
	key    []byte
	number uint32
	from   int // where its value begins in mover.values
	size   int
	moved  bool // it is under today's key already
	prior  batch.Prior
}

// run moves the chunks of the file name.
func (m *mover) run(ctx context.Context, name string) error {
	start, end := m.f.Layout.NamedFileChunks(name)
	for start != nil {
		var err error
		if start, err = m.read(ctx, start, end); err != nil {
			return err
		}
		if err := m.look(ctx); err != nil {
			return err
		}
		if err := m.write(ctx); err != nil {
			return err
		}
	}
	return nil
}

// perStep is how many chunks one step moves: as many as one sub-batch has room for
// when a key has about n bytes, in at most a mebibyte of memory.
func (m *mover) perStep(n int) int {
	l := m.db.actor.Limits().OrDefault()
	return max(1, min(l.Entries/2, l.Payload/(chunked.Size+n+32), chunked.MaxKept))
}

// read reads the chunks of the next step from the key start on, and returns where the
// one after it begins, nil for nowhere.
func (m *mover) read(ctx context.Context, start, end []byte) (next []byte, err error) {
	m.chunks, m.values = m.chunks[:0], m.values[:0]
	limit, n := m.perStep(len(end)), 0
	for e, err := range m.raw.List(ctx, actorstore.ListOptions{Start: start, End: end, Limit: limit}) {
		if err != nil {
			return nil, err
		}
		if n++; n == limit {
			next = append(bytes.Clone(e.Key), 0)
		}
		_, i, ok := m.f.Layout.ParseNamedFileChunk(e.Key)
		if !ok {
			continue // of some other form: not this package's to remove
		}
		m.chunks = append(m.chunks, movedChunk{bytes.Clone(e.Key), i, len(m.values), e.Size, false, batch.Absent})
		m.values = append(m.values, e.Value...)
	}
	return next, nil
}

// look finds out which of the chunks are under today's keys: a step that was cut off
// between two commits leaves some in both places.
func (m *mover) look(ctx context.Context) error {
	if len(m.chunks) == 0 {
		return nil
	}
	first, last := m.chunks[0].number, m.chunks[len(m.chunks)-1].number
	start := m.f.Layout.AppendFileChunk(nil, m.f.Tag, first)
	end := append(m.f.Layout.AppendFileChunk(nil, m.f.Tag, last), 0)
	at := 0
	for e, err := range m.raw.List(ctx, actorstore.ListOptions{Start: start, End: end, KeysOnly: true}) {
		if err != nil {
			return err
		}
		for at < len(m.chunks) && bytes.Compare(m.todays(at), e.Key) < 0 {
			at++
		}
		if at < len(m.chunks) && bytes.Equal(m.todays(at), e.Key) {
			// An empty value reads as none at all.
			m.chunks[at].moved, m.chunks[at].prior = e.Size > 0, batch.Stored(e.Size)
		}
	}
	return nil
}

// todays returns today's key of a chunk, valid until the next call.
func (m *mover) todays(at int) []byte {
	m.key = m.f.Layout.AppendFileChunk(m.key[:0], m.f.Tag, m.chunks[at].number)
	return m.key
}

// write moves the chunks, as they are: their lengths too, and what is beyond the end
// of the file in its last one. The removals come last, so that a step which takes
// several commits loses nothing between two.
func (m *mover) write(ctx context.Context) error {
	b := m.db.fresh(batch.Ordered)
	for at, c := range m.chunks {
		if int64(c.number) < m.keep && !c.moved {
			b.PutPrior(m.todays(at), m.values[c.from:][:c.size], c.prior)
		}
	}
	for _, c := range m.chunks {
		b.DeletePrior(c.key, batch.Stored(c.size))
	}
	if err := m.db.apply(ctx, b, false); err != nil {
		return err
	}
	for _, c := range m.chunks {
		if int64(c.number) < m.keep && !c.moved && c.size > 0 {
			m.f.Learn(c.number, c.size)
		}
	}
	return nil
}
