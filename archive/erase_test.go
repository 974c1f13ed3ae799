package archive

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/kv"
)

// objectsWith returns the names of the objects that have some bytes, in what they are when segments and bases are unpacked.
func objectsWith(t *testing.T, b bucket.Bucket, what []byte) (names []string) {
	t.Helper()
	z, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for o, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := bucket.GetBytes(t.Context(), b, o.Name, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		if x, err := parseIndex(data); err == nil {
			for i := range x.blocks {
				part, err := z.DecodeAll(data[x.blocks[i].at:][:x.blocks[i].size], nil)
				if err != nil {
					t.Fatal(err)
				}
				data = append(data, part...)
			}
		} else if bytes.HasPrefix(data, []byte(baseMagic)) {
			l, err := readBase(t.Context(), b, o.Name)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range l.Files {
				data = append(data, f.Data...)
			}
		}
		if bytes.Contains(data, what) {
			names = append(names, o.Name)
		}
	}
	return names
}

// newSecretive returns a population that is backed up, with several bases, and of which the actor 3 has a secret in its keys, its values and its labels.
func newSecretive(t *testing.T) (p *population, secret []byte) {
	t.Helper()
	p = newPopulation(t, 31, 8)
	p.opts.baseBytes, p.opts.mergeRuns = 5_000, 4
	secret = make([]byte, 100) // of which a compressed table has the bytes, too
	for i := range secret {
		secret[i] = byte(p.rnd.Uint32())
	}
	tell := func() {
		t.Helper()
		var b batch.Batch
		b.Put(actorstore.UserKey(append([]byte("secret"), secret[:20]...)), secret)
		p.actors[3].StageAttributes(&b, func(at *actorstore.Attributes) error {
			at.Labels = map[string]string{"secret": fmt.Sprintf("%x", secret[:10])}
			return nil
		})
		if err := p.actors[3].Apply(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
	}
	tell()
	for range 50 {
		p.write()
	}
	p.start()
	p.sync()
	for range 40 {
		for range 10 {
			p.write()
		}
		if p.rnd.IntN(5) == 0 {
			tell()
		}
		p.sync()
	}
	if err := errors.Join(p.w.Settle(t.Context()), p.w.Close()); err != nil { // bases are made in the background
		t.Fatal(err)
	}
	return p, secret
}

// TestErase tests that of an actor that is erased no object has anything, that all others are in each state what they were, and that a Writer
// goes on.
func TestErase(t *testing.T) {
	t.Parallel()
	p, secret := newSecretive(t)
	a := p.archive()
	lines, err := a.Lines(t.Context())
	if err != nil || lines[0].Bases < 2 {
		t.Fatal(lines, err)
	}
	if had := objectsWith(t, p.bucket, secret[:12]); len(had) < 3 {
		t.Fatalf("the secret is in %q alone", had)
	}
	id := p.actors[3].ID()
	if err := p.actors[3].Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	e, err := Erase(t.Context(), p.bucket, "actor/3", t.TempDir())
	if err != nil || len(e.Actors) != 1 || e.Actors[0] != id || e.Segments == 0 || e.Bases != 1 {
		t.Fatalf("%+v, %v", e, err)
	}
	for _, what := range [][]byte{secret[:12], secret[40:60], id.UUID[:], []byte("actor/3"), fmt.Appendf(nil, "%x", secret[:10])} {
		if has := objectsWith(t, p.bucket, what); has != nil {
			t.Errorf("%q is in %q", what, has)
		}
	}
	v, err := a.Verify(t.Context(), func(err error) { t.Error(err) }, nil)
	if err != nil || v.Problems > 0 {
		t.Fatal(v, err)
	}
	for range 20 {
		mark := a.manifest.bookmark(1, lines[0].First.Number+p.rnd.Uint64N(lines[0].Last.Number-lines[0].First.Number+1))
		if i := p.rnd.IntN(len(p.actors)); i != 3 {
			p.look(a, i, mark)
		}
		if _, err := a.Actor(t.Context(), mark, "actor/3"); !errors.Is(err, kv.ErrNotFound) {
			t.Errorf("the actor as of %s: %v", mark, err)
		}
	}
	if _, err := Erase(t.Context(), p.bucket, "actor/3", t.TempDir()); !errors.Is(err, kv.ErrNotFound) {
		t.Errorf("erased again: %v", err)
	}
	p.start()
	p.sync()
	if lines, err = a.Lines(t.Context()); err != nil || len(lines) != 1 {
		t.Fatal(lines, err)
	}
	got := restored(t, a, lines[0].Last)
	if want := rowsOf(t, p.db); !maps.Equal(got, want) {
		t.Errorf("what is restored has %d rows, and the store %d", len(got), len(want))
	}
}
