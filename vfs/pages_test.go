package vfs_test

import (
	"database/sql"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/envlimits"
	"github.com/greenroomdb/greenroom/internal/testkit"
	"github.com/greenroomdb/greenroom/vfs"
)

// A farSQLite is a database in a file, as a program has it that stores its pages in an actor.
type farSQLite struct {
	t    *testing.T
	path string
	db   *sql.DB
	was  []byte // as it was stored last
}

func openFarSQLite(t *testing.T, image []byte) *farSQLite {
	t.Helper()
	f := &farSQLite{t: t, path: filepath.Join(t.TempDir(), "far.db"), was: image}
	testkit.Must(t, os.WriteFile(f.path, image, 0o600))
	db, err := driver.Open("file:" + f.path)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	f.db = db
	return f
}

// changed returns the pages that differ from what was stored last, and how many there are.
func (f *farSQLite) changed() (pages []vfs.Page, count uint32) {
	f.t.Helper()
	is, err := os.ReadFile(f.path)
	testkit.Must(f.t, err)
	for at := 0; at < len(is); at += vfs.PageSize {
		page := is[at : at+vfs.PageSize]
		if at >= len(f.was) || string(f.was[at:at+vfs.PageSize]) != string(page) {
			pages = append(pages, vfs.Page{Number: uint32(at/vfs.PageSize) + 1, Data: page})
		}
	}
	f.was = is
	rand.Shuffle(len(pages), func(i, j int) { pages[i], pages[j] = pages[j], pages[i] })
	return pages, uint32(len(is) / vfs.PageSize)
}

// image reads all pages.
func image(t *testing.T, p *vfs.Pages) (all []byte) {
	t.Helper()
	for n := range p.Count() {
		got, err := p.Read(t.Context(), []uint32{n + 1})
		testkit.Must(t, err)
		all = append(all, got[0]...)
	}
	return all
}

// TestPages: what a program elsewhere stores by pages a DB reads, and the other way round, whatever form the database had.
func TestPages(t *testing.T) {
	r := newRig(t, batch.Limits{AtomicBatches: envlimits.Unlimited})
	p, err := vfs.OpenPages(t.Context(), r.Actor, nil, nil)
	testkit.Must(t, err)
	if got, err := p.Read(t.Context(), []uint32{1, 0}); p.Count() != 0 || err != nil || got[0] != nil || got[1] != nil {
		t.Errorf("a database that isn't there has %d pages, %v, %v", p.Count(), got, err)
	}
	far := openFarSQLite(t, nil)
	commit := func(sql string) {
		t.Helper()
		_, err := far.db.ExecContext(t.Context(), sql)
		testkit.Must(t, err)
		var b batch.Batch
		pages, count := far.changed()
		testkit.Must(t, p.Stage(&b, pages, count))
		testkit.Must(t, r.Actor.Commit(t.Context(), &b))
		stored := 0
		start, end := layout.FileChunks(actorstore.FileMain, 0)
		for _, err := range r.Actor.List(t.Context(), actorstore.ListOptions{Start: start, End: end, KeysOnly: true}) {
			testkit.Must(t, err)
			stored++
		}
		if stored != int(count) {
			t.Errorf("after %s %d pages are stored, and the database has %d", sql, stored, count)
		}
		if got := image(t, p); string(got) != string(far.was) {
			t.Fatalf("after %s the store has %d bytes, which differ from the %d of the program", sql, len(got), len(far.was))
		}
	}
	commit("create table t(x, y); pragma user_version = 7")
	commit("insert into t select value, zeroblob(3000) from generate_series(1, 300)")
	commit("delete from t where x > 20; vacuum")
	if at := r.Actor.Attributes().Schema; at != 7 {
		t.Errorf("its schema has version %d", at)
	}
	db := r.open(t, nil)
	intact(t, db)
	if n := one[int](t, db, "select sum(x) from t"); n != 210 {
		t.Errorf("the sum is %d", n)
	}
	for i, form := range []string{"pragma journal_mode=delete", "pragma journal_mode=wal", "pragma page_size=1024; vacuum"} {
		exec(t, db, form)
		exec(t, db, "insert into t values (1000, 'by the DB')")
		testkit.Must(t, db.Close())
		p, err := vfs.OpenPages(t.Context(), r.Actor, nil, nil)
		testkit.Must(t, err)
		whole := image(t, p)
		if whole[18] != 1 || whole[19] != 1 { // https://sqlite.org/fileformat2.html#file_format_version_numbers
			t.Errorf("%s: the program finds a database in WAL mode", form)
		}
		far = openFarSQLite(t, whole)
		n := 0
		testkit.Must(t, far.db.QueryRowContext(t.Context(), "select count(*) from t where x = 1000").Scan(&n))
		if n != i+1 {
			t.Errorf("%s: the program reads %d rows", form, n)
		}
		db = r.open(t, nil)
	}
	testkit.Must(t, db.Close())
}

// TestPagesRefused: pages that can't be are refused, and nothing lands.
func TestPagesRefused(t *testing.T) {
	r := newRig(t, batch.Limits{AtomicBatches: envlimits.Unlimited})
	p, err := vfs.OpenPages(t.Context(), r.Actor, nil, nil)
	testkit.Must(t, err)
	page := make([]byte, vfs.PageSize)
	for name, pages := range map[string][]vfs.Page{
		"number 0": {{0, page}}, "behind the end": {{3, page}}, "twice": {{1, page}, {2, page}, {1, page}}, "short": {{1, page[1:]}}, "empty": {{1, nil}},
	} {
		var b batch.Batch
		if err := p.Stage(&b, pages, 2); !errors.Is(err, vfs.ErrPage) || b.Len() > 0 {
			t.Errorf("%s: %v, and %d operations", name, err, b.Len())
		}
	}
	testkit.Must(t, r.Actor.Put(t.Context(), layout.AppendFileChunk(nil, actorstore.FileMain, 0), page))
	if _, err := vfs.OpenPages(t.Context(), r.Actor, nil, nil); !errors.Is(err, actorstore.ErrCorrupt) {
		t.Errorf("pages of a file that isn't there: %v", err)
	}
}
