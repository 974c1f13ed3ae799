package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	fts "github.com/ncruces/go-sqlite3/ext/fts5"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/internal/corpus"
)

// Peers of documents: SQLite's FTS5 on a file in WAL mode with synchronous=FULL, and bleve, a program of bench/peers.
const (
	fts5  = "fts5"
	bleve = "bleve-ngram"
)

// patternCount is how many patterns the searches take in turn.
const patternCount = 1000

// A shelf is where texts are put and searched, after settle as fast as it can.
type shelf interface {
	put(texts ...string) error
	settle() error
	search(pattern string) (found int, err error)
}

// A shop opens empty shelves. Its methods return what opens a side.
type shop func(s *stand) shelf

// puts is docs/put: a new document, a durable commit.
func (open shop) puts() func(*stand) {
	return func(s *stand) {
		to, texts, next := open(s), must(corpus.Texts(s.sizes.build)), 0
		s.workers = []worker{repeat(func() error {
			next++
			return to.put(texts[next%len(texts)])
		})}
	}
}

// builds is docs/build: many documents are put, and the index has all of them.
func (open shop) builds() func(*stand) {
	return func(s *stand) {
		to, texts := open(s), must(corpus.Texts(s.sizes.build))
		s.workers = []worker{repeat(func() error { return batched(texts, to.put) })}
	}
}

// searches is docs/search with the patterns of corpus.Patterns, and docs/search-short with those of corpus.Short: the
// paths of the documents that match. A round of all patterns that finds nothing is an error.
func (open shop) searches(patterns func(texts []string, n int) []string) func(*stand) {
	return func(s *stand) {
		in, texts := open(s), must(corpus.Texts(s.sizes.texts))
		check(errors.Join(batched(texts, in.put), in.settle()))
		all, next, sum := patterns(texts, patternCount), 0, 0
		s.workers = []worker{repeat(func() error {
			n, err := in.search(all[next%len(all)])
			sum += n
			if next++; err == nil && next == len(all) && sum == 0 {
				err = errors.New("no pattern was found")
			}
			return err
		})}
	}
}

// sizes is docs/size: how many bytes of text a byte on disk holds, with documents and index.
func (open shop) sizes() func(*stand) {
	return func(s *stand) {
		s.on = enginePebble // another engine has nothing in the folder
		in, texts := open(s), must(corpus.Texts(s.sizes.texts))
		check(errors.Join(batched(texts, in.put), in.settle()))
		s.run, s.say = sized(texts, func() int64 {
			s.restart()
			return folderSize(s.dir)
		})
	}
}

// batched calls put for 500 texts at a time.
func batched(texts []string, put func(texts ...string) error) error {
	const batch = 500
	for ; len(texts) > batch; texts = texts[batch:] {
		if err := put(texts[:batch]...); err != nil {
			return err
		}
	}
	return put(texts...)
}

// sized lets an operation be a byte of text: the clock goes on by a second for each byte on disk.
func sized(texts []string, onDisk func() int64) (run func(int) error, say func(int, *tally)) {
	all, size := 0, onDisk()
	for _, t := range texts {
		all += len(t)
	}
	return func(int) error { return nil }, func(n int, t *tally) {
		t.took = max(1, time.Duration(float64(n)*float64(size)/float64(all)*float64(time.Second)))
	}
}

// folderSize returns how many bytes the files of a folder have, but for the logs of Pebble: it keeps a few to write over,
// and closing has put what is in them into other files.
func folderSize(dir string) (size int64) {
	check(filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && filepath.Ext(e.Name()) != ".wal" {
			var of fs.FileInfo
			if of, err = e.Info(); err == nil {
				size += of.Size()
			}
		}
		return err
	}))
	return size
}

// A library is a store of documents with an index of their texts.
type library struct {
	ctx   context.Context
	store *docstore.Store
	next  int
}

const textsIndex docstore.Path = "/by-text"

// libraries opens libraries on the stand's engine.
func libraries() shop {
	return func(s *stand) shelf {
		l := &library{ctx: s.ctx, store: must(docstore.Open(s.ctx, s.openEngine(), "bench", nil))}
		check(l.store.Update(s.ctx, func(tx *docstore.Tx) error {
			return errors.Join(tx.CreateContainer(s.ctx, "/texts"), tx.CreateIndex(s.ctx, textsIndex, "Text", "body"))
		}))
		return l
	}
}

// put creates documents in one transaction.
func (l *library) put(texts ...string) error {
	first := l.next
	l.next += len(texts)
	return l.store.Update(l.ctx, func(tx *docstore.Tx) error {
		for i, body := range texts {
			p := docstore.Path(fmt.Sprintf("/texts/%08d", first+i))
			if err := tx.Create(l.ctx, p, "Text", docstore.Properties{"body": body}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *library) settle() error { return nil }

func (l *library) search(pattern string) (found int, err error) {
	err = l.store.View(l.ctx, func(tx *docstore.Tx) error {
		matches, err := tx.Search(l.ctx, textsIndex, pattern, nil)
		found = len(matches)
		return err
	})
	return found, err
}

// textsTable has the documents in a table, and their texts in an index of FTS5 with the trigram tokenizer and full
// detail, whose content is that table: so both sides keep the texts as documents besides. A document is found by its path.
const textsTable = `CREATE TABLE doc(id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, body TEXT NOT NULL);
	CREATE VIRTUAL TABLE fts USING fts5(body, content='doc', content_rowid='id', tokenize='trigram');
	CREATE TRIGGER put AFTER INSERT ON doc BEGIN INSERT INTO fts(rowid, body) VALUES (new.id, new.body); END`

// A textsFile is such a file.
type textsFile struct {
	*sqlite3.Conn
	insert, match, like *sqlite3.Stmt
	next                int
}

// textsFiles opens such files.
func textsFiles() shop {
	return func(s *stand) shelf {
		f := &textsFile{Conn: openPlace(s, fileWALFull, "texts")()}
		check(fts.Register(f.Conn))
		check(f.Exec(textsTable))
		f.insert = statement(s, f.Conn, `INSERT INTO doc(path, body) VALUES(?, ?)`)
		f.match = statement(s, f.Conn, `SELECT doc.path FROM fts JOIN doc ON doc.id = fts.rowid WHERE fts MATCH ?`)
		f.like = statement(s, f.Conn, `SELECT doc.path FROM fts JOIN doc ON doc.id = fts.rowid WHERE fts.body LIKE ?`)
		return f
	}
}

func (f *textsFile) put(texts ...string) (err error) {
	if len(texts) > 1 {
		if err := f.Exec(`BEGIN`); err != nil {
			return err
		}
	}
	for _, body := range texts {
		path := fmt.Sprintf("/texts/%08d", f.next)
		f.next++
		err = errors.Join(err, f.insert.BindText(1, path), f.insert.BindText(2, body), f.insert.Exec())
	}
	if len(texts) > 1 {
		err = errors.Join(err, f.Exec(`COMMIT`))
	}
	return err
}

// settle makes one segment of the index, which is how FTS5 is smallest and fastest.
func (f *textsFile) settle() error { return f.Exec(`INSERT INTO fts(fts) VALUES('optimize')`) }

// search takes the fastest way that FTS5 has to find a pattern: a phrase for *middle*, a phrase at the start for start*, and
// LIKE for *end and a whole text. It has none for fewer than three characters, which LIKE finds by reading everything.
func (f *textsFile) search(pattern string) (found int, err error) {
	stmt, arg := f.like, strings.ReplaceAll(pattern, "*", "%")
	if middle := strings.Trim(pattern, "*"); len([]rune(middle)) >= 3 && strings.HasSuffix(pattern, "*") {
		stmt, arg = f.match, `"`+middle+`"`
		if !strings.HasPrefix(pattern, "*") {
			arg = "^ " + arg
		}
	}
	if err := stmt.BindText(1, arg); err != nil {
		return 0, err
	}
	for stmt.Step() {
		if len(stmt.ColumnText(0)) > 0 {
			found++
		}
	}
	return found, stmt.Reset() // it reports what Step did
}

// inBleve opens a workload in bleve's program.
func inBleve(workload string) func(*stand) {
	return func(s *stand) {
		size := s.sizes.texts
		if workload == "put" || workload == "build" {
			size = s.sizes.build
		}
		program(s, "bleve", must(filepath.Abs(s.dir)), workload, fmt.Sprint(size))
		if workload == "load" {
			check(s.run(1))
			s.run, s.say = sized(must(corpus.Texts(size)), func() int64 {
				s.restart()
				return folderSize(s.dir)
			})
		}
	}
}
