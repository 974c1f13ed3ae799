package filecheck

import (
	"errors"

	"github.com/greenroomdb/greenroom/actorstore"
)

// Files checks all files that there are.
func (c *Checker) Files() error {
	main, journal, err := c.database()
	log := tagged(c.r.Layout(), actorstore.FileWAL)
	if err == nil {
		err = c.load(log)
	}
	if err != nil {
		return err
	}
	c.logged = log.size > 0 && main.size > 0
	for _, pair := range [...][2]*keyedFile{{main, journal}, {journal, main}, {log, main}} {
		if err := c.file(pair[0], pair[1]); err != nil {
			return err
		}
	}
	if err := c.unread(tagged(c.r.Layout(), actorstore.FileSHM)); err != nil {
		return err
	}
	return c.oldFiles(main, journal)
}

// database returns the two files that opening the database would read. They are under
// today's keys, unless only the older form has a main file. What is rewritten is so
// chunk by chunk, and its size record last.
func (c *Checker) database() (main, journal *keyedFile, err error) {
	main, journal = tagged(c.r.Layout(), actorstore.FileMain), tagged(c.r.Layout(), actorstore.FileJournal)
	if err := errors.Join(c.load(main), c.load(journal)); err != nil {
		return nil, nil, err
	}
	main.live, journal.live = true, true
	if main.has {
		return main, journal, nil
	}
	old, err := c.onlyOld()
	if old == nil || err != nil {
		return main, journal, err
	}
	oldJournal := old.sibling(actorstore.FileJournal)
	if err := errors.Join(c.load(old), c.load(oldJournal)); err != nil {
		return nil, nil, err
	}
	old.moved, old.live = main, true
	if oldJournal.has && !journal.has {
		oldJournal.moved, oldJournal.live = journal, true
		journal = oldJournal
	}
	return old, journal, nil
}

// onlyOld returns the main file of the older form, if there is exactly one: with two
// it can't be known which is the database, and neither is opened.
func (c *Checker) onlyOld() (*keyedFile, error) {
	var only *keyedFile
	start, end := c.r.Layout().NamedFileMetas()
	for e, err := range c.survey(start, end) {
		if err != nil {
			return nil, err
		}
		if f, ok := oldFileOf(c.r.Layout(), e.Key); ok && f.tag == actorstore.FileMain {
			if only != nil {
				return nil, nil
			}
			only = f
		}
	}
	return only, nil
}

// oldFiles checks the files of the older form but for those of the database: those with
// a size record, and those that have only chunks.
func (c *Checker) oldFiles(main, journal *keyedFile) error {
	start, end := c.r.Layout().NamedFileMetas()
	for e, err := range c.survey(start, end) {
		if err != nil {
			return err
		}
		f, ok := oldFileOf(c.r.Layout(), e.Key)
		if !ok || main.old && f.name == main.name || journal.old && f.name == journal.name {
			continue
		}
		if main.old && f.tag == actorstore.FileJournal && f.sibling(actorstore.FileMain).name == main.name {
			err = c.find(Harmless, e.Key, "another journal has taken its place; the next owner removes it")
		} else {
			err = c.beside(f)
		}
		if err != nil {
			return err
		}
	}
	_, from := c.r.Layout().FileChunks(actorstore.FileSHM, 0)
	for {
		f, err := c.nextOld(from)
		if f == nil || err != nil {
			return err
		}
		if err := c.load(f); err != nil {
			return err
		}
		if !f.has {
			if err := c.beside(f); err != nil {
				return err
			}
		}
		_, from = f.chunks(0)
	}
}

// nextOld returns the file of the first chunk of the older form from the key from on,
// nil without one.
func (c *Checker) nextOld(from []byte) (*keyedFile, error) {
	_, end := c.r.Layout().Range(actorstore.NamespaceSQLite)
	for e, err := range c.survey(from, end) {
		if err != nil {
			return nil, err
		}
		if name, _, ok := c.r.Layout().ParseNamedFileChunk(e.Key); ok {
			return oldFile(c.r.Layout(), name), nil
		}
	}
	return nil, nil
}

// beside checks a file of the older form that doesn't belong to the database.
func (c *Checker) beside(f *keyedFile) error {
	other := f.sibling(actorstore.FileMain)
	if f.tag == actorstore.FileMain {
		other = f.sibling(actorstore.FileJournal)
	}
	if err := errors.Join(c.load(f), c.load(other)); err != nil {
		return err
	}
	if f.tag > actorstore.FileJournal {
		return c.unread(f)
	}
	return c.file(f, other)
}
