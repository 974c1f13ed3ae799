package oldkeys

import (
	"bytes"
	"context"
	"errors"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// A Mover rewrites files of a database of the older form. Chunks go first, in steps: each puts some
// under today's keys and removes them under the older ones. The metadata records
// change last, together. Until then a reader looks for a chunk under today's key and
// then under the older one, and finds the same content after every step; so a crash
// or a failure anywhere leaves the database readable, and the next move goes on.
//
// A key of today's is never longer than the older one. So no step makes the actor
// grow, and a full quota, or one that is exceeded, doesn't stop it.
type Mover struct {
	Source *Source
	Limits batch.Limits // of the actor
	// Land lands a batch in the actor, of which a part may land before an error.
	Land func(ctx context.Context, b *batch.Batch) error

	batch  batch.Batch
	file   *chunked.File
	keep   int64 // chunks from this number on are beyond the file's end, and removed
	chunks []movedChunk
	values []byte
	key    []byte // scratch
}

// Move rewrites the file f, if it is there in the older form. It leaves the
// other files alone, except that nothing is left of any when the main file is moved:
// its journal was moved or collected when it was opened, and the others are dead. Errors are those of reading and of Land.
func (m *Mover) Move(ctx context.Context, f *chunked.File) error {
	old, layout := m.Source, f.Layout
	name := old.file(f.Tag)
	there, err := stored(ctx, old.source, layout.AppendNamedFileMeta(nil, name))
	if err != nil || !there {
		return err
	}
	done, err := stored(ctx, old.source, layout.AppendFileMeta(nil, f.Tag))
	if err != nil {
		return err
	}
	m.file, m.keep = f, chunked.Count(f.Stored())
	if done {
		m.keep = 0 // today's form is the file, and this is not it
	}
	if err := m.run(ctx, name); err != nil {
		return err
	}
	b := m.fresh()
	if f.Tag == actorstore.FileMain {
		for tag := actorstore.FileJournal; tag <= actorstore.FileSHM; tag++ {
			stageRemoval(&b.Group, layout, old.file(tag))
		}
	}
	if !done {
		b.Final().PutPrior(layout.AppendFileMeta(nil, f.Tag), chunked.AppendMeta(nil, f.Stored()), batch.Absent)
	}
	b.Final().Delete(layout.AppendNamedFileMeta(nil, name))
	return m.Land(ctx, b)
}

// fresh returns m's batch, with nothing in it.
func (m *Mover) fresh() *batch.Batch {
	m.batch.Reset()
	m.batch.Mode = batch.Ordered
	return &m.batch
}

// stored says whether r has key.
func stored(ctx context.Context, r actorstore.Reader, key []byte) (bool, error) {
	_, err := r.Get(ctx, key, nil)
	if errors.Is(err, actorstore.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// stageRemoval removes a file of the older form, its metadata record first.
func stageRemoval(g *batch.Group, l actorstore.Layout, name string) {
	g.Delete(l.AppendNamedFileMeta(nil, name))
	start, end := l.NamedFileChunks(name)
	g.DeleteRange(start, end)
}

// A movedChunk is a chunk under its older key.
type movedChunk struct {
	key    []byte
	number uint32
	from   int // where its value begins in Mover.values
	size   int
	moved  bool // it is under today's key already
	prior  batch.Prior
}

// run moves the chunks of the file name.
func (m *Mover) run(ctx context.Context, name string) error {
	start, end := m.file.Layout.NamedFileChunks(name)
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
func (m *Mover) perStep(n int) int {
	l := m.Limits.OrDefault()
	return max(1, min(l.Entries/2, l.Payload/(chunked.Size+n+32), chunked.MaxKept))
}

// read reads the chunks of the next step from the key start on, and returns where the
// one after it begins, nil for nowhere.
func (m *Mover) read(ctx context.Context, start, end []byte) (next []byte, err error) {
	m.chunks, m.values = m.chunks[:0], m.values[:0]
	limit, n := m.perStep(len(end)), 0
	for e, err := range m.Source.source.List(ctx, actorstore.ListOptions{Start: start, End: end, Limit: limit}) {
		if err != nil {
			return nil, err
		}
		if n++; n == limit {
			next = append(bytes.Clone(e.Key), 0)
		}
		_, i, ok := m.file.Layout.ParseNamedFileChunk(e.Key)
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
func (m *Mover) look(ctx context.Context) error {
	if len(m.chunks) == 0 {
		return nil
	}
	first, last := m.chunks[0].number, m.chunks[len(m.chunks)-1].number
	start := m.file.Layout.AppendFileChunk(nil, m.file.Tag, first)
	end := append(m.file.Layout.AppendFileChunk(nil, m.file.Tag, last), 0)
	at := 0
	for e, err := range m.Source.source.List(ctx, actorstore.ListOptions{Start: start, End: end, KeysOnly: true}) {
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
func (m *Mover) todays(at int) []byte {
	m.key = m.file.Layout.AppendFileChunk(m.key[:0], m.file.Tag, m.chunks[at].number)
	return m.key
}

// write moves the chunks, as they are: their lengths too, and what is beyond the end
// of the file in its last one. The removals come last, so that a step which takes
// several commits loses nothing between two.
func (m *Mover) write(ctx context.Context) error {
	b := m.fresh()
	for at, c := range m.chunks {
		if int64(c.number) < m.keep && !c.moved {
			b.PutPrior(m.todays(at), m.values[c.from:][:c.size], c.prior)
		}
	}
	for _, c := range m.chunks {
		b.DeletePrior(c.key, batch.Stored(c.size))
	}
	if err := m.Land(ctx, b); err != nil {
		return err
	}
	for _, c := range m.chunks {
		if int64(c.number) < m.keep && !c.moved && c.size > 0 {
			m.file.Learn(c.number, c.size)
		}
	}
	return nil
}
