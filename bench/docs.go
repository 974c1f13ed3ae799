package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
	fts "github.com/ncruces/go-sqlite3/ext/fts5"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/internal/corpus"
	"github.com/greenroomdb/greenroom/kv"
)

// Peers of documents: SQLite's FTS5 on a file in WAL mode with synchronous=FULL, and bleve, a program of bench/peers.
const (
	fts5  = "fts5"
	bleve = "bleve-ngram"
)

// patternCount is how many patterns the searches take in turn.
const patternCount = 1000

// bodies returns the texts of the workloads on texts: sizes.texts bytes of them, or of docs/build sizes.build.
func bodies(size int) []string { return must(corpus.Texts(size)) }

// A library is a store of documents with an index of their texts.
type library struct {
	s     *stand
	store *docstore.Store
	next  int
}

const textsIndex docstore.Path = "/by-text"

// openLibrary opens a library without documents.
func openLibrary(s *stand) *library {
	l := &library{s: s, store: must(docstore.Open(s.ctx, s.openEngine(), "bench", nil))}
	check(l.store.Update(s.ctx, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateContainer(s.ctx, "/texts"), tx.CreateIndex(s.ctx, textsIndex, "Text", "body"))
	}))
	return l
}

// put creates documents in one transaction.
func (l *library) put(texts ...string) error {
	first := l.next
	l.next += len(texts)
	return l.store.Update(l.s.ctx, func(tx *docstore.Tx) error {
		for i, body := range texts {
			p := docstore.Path(fmt.Sprintf("/texts/%08d", first+i))
			if err := tx.Create(l.s.ctx, p, "Text", docstore.Properties{"body": body}); err != nil {
				return err
			}
		}
		return nil
	})
}

// batched calls put for so many texts at a time.
func batched(texts []string, put func(texts ...string) error) error {
	const batch = 500
	for ; len(texts) > batch; texts = texts[batch:] {
		if err := put(texts[:batch]...); err != nil {
			return err
		}
	}
	return put(texts...)
}

// openDocPut is docs/put: a new document, a durable commit.
func openDocPut(s *stand) { s.workers = []worker{oneByOne(s, openLibrary(s).put)} }

// oneByOne is the worker that puts one text after the other.
func oneByOne(s *stand, put func(texts ...string) error) worker {
	texts, next := bodies(s.sizes.build), 0
	return repeat(func() error {
		next++
		return put(texts[next%len(texts)])
	})
}

// openDocBuild is docs/build: many documents are put, 500 at once, and the index has all of them.
func openDocBuild(s *stand) {
	l, texts := openLibrary(s), bodies(s.sizes.build)
	s.workers = []worker{repeat(func() error { return batched(texts, l.put) })}
}

// openDocSearch is docs/search: the paths of the documents that match a pattern of three characters or more.
func openDocSearch(s *stand) { searchLibrary(s, corpus.Patterns) }

// openDocShort is docs/search-short: the same of one or two characters.
func openDocShort(s *stand) { searchLibrary(s, corpus.Short) }

func searchLibrary(s *stand, of func(texts []string, n int) []string) {
	texts := bodies(s.sizes.texts)
	l := openLibrary(s)
	check(batched(texts, l.put))
	s.workers = []worker{inTurn(of(texts, patternCount), func(pattern string) (found int, err error) {
		err = l.store.View(s.ctx, func(tx *docstore.Tx) error {
			matches, err := tx.Search(s.ctx, textsIndex, pattern, nil)
			found = len(matches)
			return err
		})
		return found, err
	})}
}

// inTurn is the worker that searches for one pattern after the other. A round of them that finds nothing is an error.
func inTurn(patterns []string, search func(pattern string) (int, error)) worker {
	next, sum := 0, 0
	return repeat(func() error {
		n, err := search(patterns[next%len(patterns)])
		sum += n
		if next++; err == nil && next == len(patterns) && sum == 0 {
			err = errors.New("no pattern was found")
		}
		return err
	})
}

// openDocSize is docs/size: how many bytes of text a byte on disk holds, with documents and index. The clock goes on by a
// second for each byte on disk.
func openDocSize(s *stand) {
	texts := bodies(s.sizes.texts)
	check(batched(texts, openLibrary(s).put))
	size := onDisk(s)
	if s.on != enginePebble {
		size = inRows(s)
	}
	measureSize(s, texts, size)
}

// measureSize lets an operation be a byte of text.
func measureSize(s *stand, texts []string, size int64) {
	var all int
	for _, t := range texts {
		all += len(t)
	}
	s.run = func(int) error { return nil }
	s.say = func(n int, t *tally) {
		t.took = time.Duration(float64(n) * float64(size) / float64(all) * float64(time.Second))
	}
}

// onDisk closes what the stand has open, and returns how many bytes its folder has.
func onDisk(s *stand) (size int64) {
	s.restart()
	check(filepath.WalkDir(s.dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			var of os.FileInfo
			if of, err = e.Info(); err == nil {
				size += of.Size()
			}
		}
		return err
	}))
	return size
}

// inRows returns how many bytes the keys and values of the engine have.
func inRows(s *stand) (size int64) {
	for e, err := range s.openEngine().Scan(s.ctx, kv.Range{}) {
		check(err)
		size += int64(len(e.Key) + len(e.Value))
	}
	return size
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

func openTextsFile(s *stand) *textsFile {
	f := &textsFile{Conn: openPlace(s, fileWALFull, "texts")()}
	check(fts.Register(f.Conn))
	check(f.Exec(textsTable))
	f.insert = statement(s, f.Conn, `INSERT INTO doc(path, body) VALUES(?, ?)`)
	f.match = statement(s, f.Conn, `SELECT doc.path FROM fts JOIN doc ON doc.id = fts.rowid WHERE fts MATCH ?`)
	f.like = statement(s, f.Conn, `SELECT doc.path FROM fts JOIN doc ON doc.id = fts.rowid WHERE fts.body LIKE ?`)
	return f
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

// optimize makes one segment of the index, which is how FTS5 is smallest and fastest.
func (f *textsFile) optimize() { check(f.Exec(`INSERT INTO fts(fts) VALUES('optimize')`)) }

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

func openFileTexts(s *stand) { s.workers = []worker{oneByOne(s, openTextsFile(s).put)} }

func openFileBuild(s *stand) {
	f, texts := openTextsFile(s), bodies(s.sizes.build)
	s.workers = []worker{repeat(func() error { return batched(texts, f.put) })}
}

func searchFile(of func(texts []string, n int) []string) func(*stand) {
	return func(s *stand) {
		f, texts := openTextsFile(s), bodies(s.sizes.texts)
		check(batched(texts, f.put))
		f.optimize()
		s.workers = []worker{inTurn(of(texts, patternCount), f.search)}
	}
}

func openFileSize(s *stand) {
	f, texts := openTextsFile(s), bodies(s.sizes.texts)
	check(batched(texts, f.put))
	f.optimize()
	measureSize(s, texts, onDisk(s))
}

// openBleve opens a workload in bleve's program.
func openBleve(workload string) func(*stand) {
	return func(s *stand) {
		size := s.sizes.texts
		if workload == "put" || workload == "build" {
			size = s.sizes.build
		}
		program(s, "bleve", must(filepath.Abs(s.dir)), workload, fmt.Sprint(size))
	}
}

func openBleveSize(s *stand) {
	openBleve("load")(s)
	check(s.run(1))
	measureSize(s, bodies(s.sizes.texts), onDisk(s))
}
