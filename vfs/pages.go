package vfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
	"github.com/greenroomdb/greenroom/vfs/internal/format"
)

// PageSize is the size of a page of Pages, in bytes.
const PageSize = chunked.Size

// ErrPage says that a page of Pages can't be: its number is 0 or behind the end of the database, it is there twice, or it isn't of PageSize bytes.
var ErrPage = errors.New("vfs: no such page")

// Pages is an actor's database for a program that runs SQLite elsewhere: it reads pages, and stores those that its transaction changes. The format is that of a DB, so
// that either reads what the other writes; but only one of them is open at a time. The program keeps its journal itself: a transaction is whole when it comes here.
//
// A Pages is for one goroutine at a time.
type Pages struct {
	actor *actorstore.Actor
	size  int64 // as it is stored, −1 without a database
}

// A Page is a page of a database, by its number, which counts from 1.
type Page struct {
	Number uint32
	Data   []byte
}

// OpenPages returns the pages of a's database, which need not exist. What a crash left is finished first. A database with a write-ahead log, with the keys of older versions or with pages of another size
// is brought to the form without them, in which pages have other contents: opts are for that, and rewrites, if it isn't nil, is called before. Its error ends OpenPages.
//
// Errors: those of Open, of SQLite, of the engine and of rewrites.
func OpenPages(ctx context.Context, a *actorstore.Actor, rewrites func() error, opts *Options) (*Pages, error) {
	p := &Pages{actor: a}
	plain, err := p.plain(ctx)
	if err == nil && !plain && rewrites != nil {
		err = rewrites()
	}
	if err == nil && !plain {
		err = p.plainly(ctx, opts)
	}
	f := chunked.File{Tag: actorstore.FileMain, Reader: a, Layout: a.Layout()}
	if err == nil {
		err = f.Load(ctx)
	}
	if p.size = f.Stored(); err == nil && p.size < 0 {
		err = f.RefuseUnsized(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("vfs: open the pages of actor %s: %w", a.ID(), err)
	}
	return p, nil
}

// plain says whether nothing but chunks of a main file is there, with pages of PageSize.
func (p *Pages) plain(ctx context.Context) (bool, error) {
	l := p.actor.Layout()
	main := l.AppendFileMeta(nil, actorstore.FileMain)
	exists := false
	for e, err := range p.actor.List(ctx, actorstore.ListOptions{Prefix: main[:len(main)-1], KeysOnly: true}) {
		if err != nil || string(e.Key) != string(main) { // another file: what it has must land, or be rolled back
			return false, err
		}
		exists = true
	}
	if !exists {
		return true, nil
	}
	var header format.Header
	_, err := chunked.Read(ctx, p.actor, l.AppendFileChunk(nil, actorstore.FileMain, 0), header[:], 0)
	return header == format.Header{} || header.Plain() && !header.Logged() && header.PageSize() == PageSize, err
}

// plainly brings the database to that form, with SQLite.
func (p *Pages) plainly(ctx context.Context, opts *Options) (err error) {
	db, err := Open(ctx, p.actor, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	// VACUUM changes the size of pages, and writes all under today's keys.
	for _, sql := range []string{"PRAGMA journal_mode=DELETE", fmt.Sprintf("PRAGMA page_size=%d", PageSize), "VACUUM"} {
		if _, err := conn.ExecContext(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// Count returns how many pages the database has, 0 if it doesn't exist.
func (p *Pages) Count() uint32 { return uint32(chunked.Count(max(p.size, 0))) }

// Read returns pages by their numbers, nil for one behind the end of the database. The caller owns them.
func (p *Pages) Read(ctx context.Context, numbers []uint32) ([][]byte, error) {
	all := make([][]byte, len(numbers))
	for i, n := range numbers {
		if n == 0 || n > p.Count() {
			continue
		}
		all[i] = make([]byte, PageSize)
		if _, err := chunked.Read(ctx, p.actor, p.key(n), all[i], 0); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Stage makes pages land with b, which also makes the database one of count pages: those behind are removed. The bytes of the pages must not change until b has landed. Errors are ErrPage.
func (p *Pages) Stage(b *batch.Batch, pages []Page, count uint32) error {
	pages = slices.Clone(pages)
	slices.SortFunc(pages, func(a, b Page) int { return cmp.Compare(a.Number, b.Number) })
	before := uint32(0)
	for _, page := range pages {
		if page.Number <= before || page.Number > count || len(page.Data) != PageSize {
			return fmt.Errorf("%w: number %d of %d, with %d bytes", ErrPage, page.Number, count, len(page.Data))
		}
		before = page.Number
	}
	for _, page := range pages {
		b.Put(p.key(page.Number), page.Data)
	}
	switch {
	case count == 0:
		p.actor.StageSchema(b, 0)
	case len(pages) > 0 && pages[0].Number == 1:
		p.actor.StageSchema(b, format.UserVersion(pages[0].Data))
	}
	l := p.actor.Layout()
	if p.Count() > count {
		start, end := l.FileChunks(actorstore.FileMain, count)
		b.DeleteRange(start, end)
	}
	size := int64(count) * PageSize
	if p.size != size {
		b.Put(l.AppendFileMeta(nil, actorstore.FileMain), chunked.AppendMeta(nil, size))
	}
	b.OnCommit(func() { p.size = size })
	return nil
}

// key returns the key of a page.
func (p *Pages) key(n uint32) []byte {
	return p.actor.Layout().AppendFileChunk(nil, actorstore.FileMain, n-1)
}
