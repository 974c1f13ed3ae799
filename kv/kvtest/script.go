package kvtest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/internal/suite"
)

// Replay runs a script against an empty engine and against the oracle, and
// returns an error that names the first line at which they differ. When the
// random test fails it prints its operations as such a script.
//
// A line is one operation; words are separated by spaces, and bytes are written
// as a quoted Go string, as nil, as pattern(length,seed), or as long and a quoted Go
// string, which is that behind 2,600 times the letter a:
//
//	commit applied|durable {check K V|absent K|set K V|clear K|clearrange K K}
//	get READER K
//	scan READER START END LIMIT forward|reverse
//	snapshot NAME
//	close NAME
//
// READER is "engine" or the NAME of an open snapshot.
func Replay(eng kv.Engine, script string) error {
	r := newReplayer(eng)
	for i, line := range strings.Split(strings.TrimSpace(script), "\n") {
		if err := r.run(line); err != nil {
			return errors.Join(fmt.Errorf("line %d, %s: %w", i+1, line, err), r.close())
		}
	}
	return r.close()
}

// A replayer runs the lines of a script.
type replayer struct {
	eng         kv.Engine
	model       suite.Model
	snaps       map[string]pinned
	suite.Words // what is left of the current line
	buf         []byte
}

// A pinned is a snapshot and what it should show.
type pinned struct {
	snap  kv.Snapshot
	model suite.Model
}

func newReplayer(eng kv.Engine) *replayer {
	return &replayer{eng: eng, model: suite.Model{}, snaps: map[string]pinned{}}
}

// close closes the snapshots that the script left open.
func (r *replayer) close() error {
	var errs []error
	for _, s := range r.snaps {
		errs = append(errs, s.snap.Close())
	}
	return errors.Join(errs...)
}

func (r *replayer) run(line string) error {
	r.Left = line
	switch verb := r.Word(); verb {
	case "commit":
		return r.commit()
	case "get":
		return r.get()
	case "scan":
		return r.scan()
	case "snapshot":
		s, err := r.eng.Snapshot(ctx)
		if err != nil {
			return err
		}
		r.snaps[r.Word()] = pinned{s, r.model.Clone()}
		return nil
	case "close":
		name := r.Word()
		s, ok := r.snaps[name]
		if !ok {
			return fmt.Errorf("no snapshot %q", name)
		}
		delete(r.snaps, name)
		return s.snap.Close()
	default:
		return fmt.Errorf("unknown verb %q", verb)
	}
}

// reader takes the name of a reader and returns it with its model.
func (r *replayer) reader() (kv.Reader, suite.Model, error) {
	name := r.Word()
	if name == "engine" {
		return r.eng, r.model, nil
	}
	s, ok := r.snaps[name]
	if !ok {
		return nil, nil, fmt.Errorf("no snapshot %q", name)
	}
	return s.snap, s.model, nil
}

func (r *replayer) commit() error {
	c := &kv.Commit{}
	switch w := r.Word(); w {
	case "applied":
		c.Durability = kv.Applied
	case "durable":
	default:
		return fmt.Errorf("unknown durability %q", w)
	}
	for r.Left = strings.TrimSpace(r.Left); r.Left != ""; r.Left = strings.TrimSpace(r.Left) {
		if err := r.part(c); err != nil {
			return err
		}
	}
	err := r.eng.Commit(ctx, c)
	if !r.model.Holds(c.Checks) {
		if !errors.Is(err, kv.ErrConflict) {
			return fmt.Errorf("got error %v, want %w", err, kv.ErrConflict)
		}
		return nil
	}
	if err == nil {
		r.model.Apply(c.Ops)
	}
	return err
}

// part takes one check or operation of a commit.
func (r *replayer) part(c *kv.Commit) error {
	verb := r.Word()
	a, err := r.Bytes()
	if err != nil {
		return err
	}
	switch verb {
	case "absent":
		c.Checks = append(c.Checks, kv.Check{Key: a, Absent: true})
		return nil
	case "clear":
		c.Ops = append(c.Ops, kv.Clear(a))
		return nil
	}
	b, err := r.Bytes()
	if err != nil {
		return err
	}
	switch verb {
	case "check":
		c.Checks = append(c.Checks, kv.Check{Key: a, Value: b})
	case "set":
		c.Ops = append(c.Ops, kv.Set(a, b))
	case "clearrange":
		c.Ops = append(c.Ops, kv.ClearRange(a, b))
	default:
		return fmt.Errorf("unknown part of a commit %q", verb)
	}
	return nil
}

func (r *replayer) get() error {
	from, m, err := r.reader()
	if err != nil {
		return err
	}
	key, err := r.Bytes()
	if err != nil {
		return err
	}
	got, err := from.Get(ctx, key, r.buf[:0])
	want, ok := m[string(key)]
	switch {
	case !ok && !errors.Is(err, kv.ErrNotFound):
		return fmt.Errorf("got %s, %v, want %w", suite.Brief(string(got)), err, kv.ErrNotFound)
	case ok && err != nil:
		return err
	case ok && string(got) != want:
		return fmt.Errorf("got %s, want %s", suite.Brief(string(got)), suite.Brief(want))
	}
	r.buf = got
	return nil
}

func (r *replayer) scan() error {
	from, m, err := r.reader()
	if err != nil {
		return err
	}
	var rng kv.Range
	if rng.Start, err = r.Bytes(); err != nil {
		return err
	}
	if rng.End, err = r.Bytes(); err != nil {
		return err
	}
	if rng.Limit, err = strconv.Atoi(r.Word()); err != nil {
		return err
	}
	rng.Reverse = r.Word() == "reverse"
	want := m.Keys(rng)
	i := 0
	for e, err := range from.Scan(ctx, rng) {
		switch {
		case err != nil:
			return err
		case i == len(want):
			return fmt.Errorf("got %q after the last of %d keys", e.Key, i)
		case string(e.Key) != want[i]:
			return fmt.Errorf("entry %d: got key %q, want %q", i, e.Key, want[i])
		case string(e.Value) != m[want[i]]:
			return fmt.Errorf("value of %q: got %s, want %s", e.Key, suite.Brief(string(e.Value)), suite.Brief(m[want[i]]))
		}
		i++
	}
	if i != len(want) {
		return fmt.Errorf("got %d keys, want %d", i, len(want))
	}
	return nil
}
