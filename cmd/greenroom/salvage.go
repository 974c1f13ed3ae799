package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/internal/serving"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A salvager is the command, in its environment.
type salvager struct{ env *env }

func (c salvager) command() *cobra.Command {
	return &cobra.Command{
		Use:   "salvage OLD NEW",
		Short: "Copy what can be read of a damaged store to a new one",
		Long: `Copy everything that can be read of the store OLD, a directory, to the store NEW,
which must not be there yet, or be empty. OLD is not changed, and nothing may have
it open. NEW is checked as "greenroom check" does it, and lines say what is lost.

If the log of OLD is damaged, NEW has every commit before the first one that can't
be read, and none behind it: so each actor is in a state that it was in. A line says
how many commits behind it are left out, and each actor that they are of is "lost".
What can't be read may be of any actor: the others are "whole but for that".
If a table is damaged, the rows of the damaged part are left out, and the actors that
may have had rows there are "lost".
If the list of the tables, MANIFEST, is damaged or lost, NEW has what all tables and the
log that are there have. That takes about three times the room of OLD beside NEW for a while.

The status is 0 if all is whole, and 1 if something is lost, or may be.`,
		Example: `  greenroom salvage data data.new`,
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			whole, err := c.copy(cmd.Context(), args[0], args[1])
			if err == nil && !whole {
				return serving.ErrProblems
			}
			return err
		},
	}
}

// Bounds of one commit of a copy; an engine may have lower ones.
const (
	salvageBytes = 4 << 20
	salvageOps   = 10_000
)

// copy copies what can be read, and returns whether that is all.
func (c salvager) copy(ctx context.Context, old, to string) (whole bool, err error) {
	kind, dir, err := storeurl.Parse(old)
	if err != nil {
		return false, serving.StoreError(old, err)
	}
	if kind != "pebble" {
		return false, serving.Usage("salvage is for a store in a directory, not for " + storeurl.Display(old))
	}
	if err := refuseUsed(ctx, to); err != nil {
		return false, err
	}
	out := bufio.NewWriter(c.env.stdout)
	defer func() { err = errors.Join(err, out.Flush()) }()
	from, err := pebblekv.OpenSalvage(dir, nil)
	var rebuilt []error
	if errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrNotAStore) {
		scratch, failed := os.MkdirTemp(scratchOf(to), "greenroom-salvage-")
		if failed != nil {
			return false, errors.Join(serving.StoreError(old, err), failed)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
		rebuilt = []error{err}
		var damage []error
		if damage, err = pebblekv.Rebuild(ctx, dir, scratch); err == nil {
			rebuilt = append(rebuilt, damage...)
			from, err = pebblekv.OpenSalvage(filepath.Join(scratch, "store"), nil)
		}
	}
	if err != nil {
		return false, serving.StoreError(old, err)
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	s := &salvaging{progress: c.env.progress, from: from, out: out, lost: map[actorstore.ID]string{}, bad: map[actorstore.ID]bool{}, rebuilt: len(rebuilt) > 0}
	for _, why := range rebuilt {
		s.say("damaged: %v", why)
	}
	err = withEngine(ctx, to, storeurl.OpenEngine, greenroom.Options{}, func(engine kv.Engine) error { return s.copyTo(ctx, engine) })
	if err == nil {
		err = s.readLog(ctx)
	}
	if err != nil {
		return false, err
	}
	err = serving.WithStore(ctx, to, greenroom.Options{}, func(store *storeurl.Store) (err error) {
		whole, err = s.judge(ctx, &storeCheck{env: c.env, url: to, store: store.Lower(), out: out, hide: func() {}}, store)
		return err
	})
	return whole, err
}

// scratchOf returns the directory in which a store is rebuilt: on the disk of the new one if that is a directory, "" for that of temporary files.
func scratchOf(to string) string {
	kind, dir, err := storeurl.Parse(to)
	if err != nil || kind != "pebble" {
		return ""
	}
	return filepath.Dir(filepath.Clean(dir))
}

// refuseUsed returns an error if there is something in a store, or in the directory that it is to be made in.
func refuseUsed(ctx context.Context, url string) error {
	kind, dir, err := storeurl.Parse(url)
	switch {
	case err != nil:
		return serving.StoreError(url, err)
	case kind == "mem":
		return serving.Usage("a store in memory is gone when the command ends")
	case kind == "pebble":
		names, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return serving.StoreError(url, err)
		}
		if len(names) > 0 {
			return fmt.Errorf("%s is not empty: the new store needs a directory of its own", dir)
		}
		return nil
	}
	err = withEngine(ctx, url, storeurl.OpenEngine, greenroom.Options{ReadOnly: true}, func(engine kv.Engine) error {
		for _, err := range engine.Scan(ctx, kv.Range{Limit: 1}) {
			return cmp.Or(err, fmt.Errorf("the store %s is not empty", storeurl.Display(url)))
		}
		return nil
	})
	if errors.Is(err, kv.ErrNoStore) {
		return nil
	}
	return err
}

// A salvaging is one run of greenroom salvage.
type salvaging struct {
	progress io.Writer // nil draws nothing
	from     *pebblekv.Salvage
	out      *bufio.Writer // its Flush reports errors

	ops          []kv.Op
	size, copied int // bytes in ops, and those before
	hide         func()

	gaps   []pebblekv.Gap
	lost   map[actorstore.ID]string // why an actor isn't whole
	unread bool                     // commits may be lost of which nothing can be read
	bad    map[actorstore.ID]bool   // of which the check has found something

	rebuilt bool // from all tables that are there
}

// say writes a line.
func (s *salvaging) say(format string, args ...any) {
	fmt.Fprintln(s.out, oneLine(fmt.Sprintf(format, args...)))
}

// copyTo copies all rows that can be read.
func (s *salvaging) copyTo(ctx context.Context, to kv.Engine) error {
	s.hide = showHint(s.progress, "copying …")
	defer func() { s.hide() }()
	in, limits := to.Incarnation(), to.Limits()
	most := min(salvageBytes, cmp.Or(limits.Bytes, salvageBytes))
	ops := min(salvageOps, cmp.Or(limits.Ops, salvageOps))
	row := func(e kv.Entry) error {
		n := len(e.Key) + len(e.Value)
		if len(s.ops) == ops || s.size+n > most {
			if err := s.commit(ctx, to); err != nil {
				return err
			}
		}
		s.ops = append(s.ops, kv.Set(bytes.Clone(e.Key), bytes.Clone(e.Value)))
		s.size += n
		return nil
	}
	gap := func(g pebblekv.Gap) error {
		s.gaps = append(s.gaps, g)
		s.hide()
		s.say("damaged: %s: %v", rangeWords(g.Range), g.Cause)
		return nil
	}
	if err := actorstore.Make(ctx, to); err != nil { // the row that says it may be lost
		return err
	}
	if err := s.from.Rows(ctx, row, gap); err != nil {
		return err
	}
	if err := s.commit(ctx, to); err != nil {
		return err
	}
	return to.Sync(ctx, in)
}

// commit writes what was gathered.
func (s *salvaging) commit(ctx context.Context, to kv.Engine) error {
	if len(s.ops) == 0 {
		return nil
	}
	err := to.Commit(ctx, &kv.Commit{Ops: s.ops, Durability: kv.Applied})
	s.copied += s.size
	s.ops, s.size = s.ops[:0], 0
	s.hide()
	s.hide = showHint(s.progress, fmt.Sprintf("copied %.1f MB …", float64(s.copied)/1e6))
	return err
}

// rangeWords says where a range is, in words where its bounds are keys of actors.
func rangeWords(r kv.Range) string {
	word := func(row []byte) string {
		id, key, ok := actorstore.RowOwner(row)
		switch {
		case len(row) <= 1:
			return "the first row"
		case !ok:
			return fmt.Sprintf("row %x", row)
		case key == nil:
			return "id:" + id.String()
		}
		return "id:" + id.String() + " " + actorstore.Describe(key)
	}
	if r.End == nil {
		return "from " + word(r.Start) + " to the last row"
	}
	return "from " + word(r.Start) + " to " + word(r.End)
}

// readLog says what is left out of the log, and of which actors that is.
func (s *salvaging) readLog(ctx context.Context) error {
	damage := s.from.LogDamage()
	if damage == nil {
		return nil
	}
	s.say("damaged: the log: %v", damage)
	count := map[actorstore.ID]int{}
	commits, last := uint64(0), uint64(0)
	for c, err := range s.from.LeftCommits() {
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return err
		}
		if last == 0 {
			last = c.Last
		}
		s.unread = s.unread || c.Number > last+1
		commits, last = commits+1, c.Number
		of := map[actorstore.ID]bool{}
		for _, r := range c.Touched {
			if id, _, ok := actorstore.RowOwner(r.Start); ok && !of[id] {
				of[id] = true
				count[id]++
			}
		}
	}
	s.unread = s.unread || commits == 0
	for id, n := range count {
		s.lost[id] = countCommits(n) + " at the end of the log"
	}
	s.say("left out: %s behind the damage that can be read", countCommits(int(commits)))
	return nil
}

func countCommits(n int) string { return count(n, "commit") }

// judge checks the new store, writes a line about each actor, and returns whether all is whole.
func (s *salvaging) judge(ctx context.Context, c *storeCheck, store *storeurl.Store) (whole bool, err error) {
	c.found = func(f actorstore.Finding) { s.bad[f.Actor] = true }
	err = c.all(ctx, store)
	if c.hide(); err != nil {
		return false, err
	}
	good, lost := 0, 0
	tell := func(id actorstore.ID) {
		text := s.verdict(id)
		if strings.HasPrefix(text, "whole if") || text == "whole" {
			good++
		} else {
			lost++
		}
		s.say("%s: %s", c.labelOf(ctx, id), text)
		delete(s.lost, id)
		delete(s.bad, id)
	}
	ofStore := s.bad[actorstore.ID{}]
	delete(s.bad, actorstore.ID{})
	for id, err := range store.Lower().IDs(ctx) {
		if err != nil {
			return false, err
		}
		tell(id)
	}
	// What is left are actors of which the new store has no head.
	gone := slices.AppendSeq(slices.Collect(maps.Keys(s.lost)), maps.Keys(s.bad))
	slices.SortFunc(gone, func(a, b actorstore.ID) int { return strings.Compare(a.String(), b.String()) })
	for _, id := range slices.Compact(gone) {
		tell(id)
	}
	s.say("%s whole, %d not", count(good, "actor"), lost)
	return lost == 0 && !s.rebuilt && len(s.gaps) == 0 && s.from.LogDamage() == nil && !ofStore, nil
}

// verdict says in which state an actor is.
func (s *salvaging) verdict(id actorstore.ID) string {
	var reasons []string
	if s.lost[id] != "" {
		reasons = append(reasons, s.lost[id])
	}
	gaps := 0
	for _, g := range s.gaps {
		if actorstore.RowsOverlap(id, g.Range) {
			gaps++
		}
	}
	if gaps > 0 {
		reasons = append(reasons, "rows in "+count(gaps, "damaged part")+" of the tables")
	}
	if s.bad[id] {
		reasons = append(reasons, "what the check has found")
	}
	switch {
	case len(reasons) > 0:
		return "lost: " + strings.Join(reasons, ", ")
	case s.rebuilt:
		return "whole if all tables are there, and no others"
	case s.unread:
		return "whole but for commits that can't be read"
	}
	return "whole"
}
