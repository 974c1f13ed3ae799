package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
	sqlitevfs "github.com/ncruces/go-sqlite3/vfs"

	"github.com/greenroomdb/greenroom/batch"
	"github.com/greenroomdb/greenroom/internal/testkit/engines"
	"github.com/greenroomdb/greenroom/internal/testkit/rig"
	"github.com/greenroomdb/greenroom/vfs"
	"github.com/greenroomdb/greenroom/vfs/internal/chunked"
)

// A fileReplayer runs scripts against the main file of a database, through the calls
// that SQLite makes, and against a byte slice, and says where they differ. A line is
// one operation:
//
//	tx atomic|delete|truncate|persist END; WRITE; …
//	read OFF SIZE         the last committed state, under a lock of its own
//	pin, unpin            a reader begins, and goes on in its state; or ends
//	reopen                closes everything and mounts the actor again
//
// A WRITE is write OFF SIZE SEED (bytes made from SEED; ff: bytes of 0xff) or
// truncate SIZE, which may grow the file too. An atomic transaction truncates when
// it is committed. END is one of
//
//	commit                rollback            as SQLite makes them
//	close                 the connection ends in the middle
//	crash N [M]           N engine commits of the transaction land, modulo how many
//	                      it makes; and of the recovery M, before it is begun again
type fileReplayer struct {
	t      testing.TB
	limits batch.Limits

	tape *engines.Tape
	rig  *fixture
	vfs  vfs.Files
	file *vfs.Handle // the writer
	look *vfs.Handle // readers'

	model  []byte // the committed state
	pinned []byte // what the pinned reader sees; nil without one
}

func newFileReplayer(t testing.TB, limits batch.Limits) *fileReplayer {
	r := &fileReplayer{t: t, limits: limits, tape: engines.NewTape()}
	r.open()
	return r
}

func (r *fileReplayer) must(err error) {
	if err != nil {
		r.t.Helper()
		r.t.Fatal(err)
	}
}

func (r *fileReplayer) open() {
	r.t.Helper()
	r.rig = openRig(r.t.(*testing.T), r.tape, r.limits)
	r.vfs = vfs.Files{VFS: vfs.New(&vfs.Options{TxMemory: vfs.LeastTxMemory})}
	r.must(r.vfs.Mount(r.t.Context(), "f", r.rig.Actor))
	r.file, r.look = r.handle(), r.handle()
}

func (r *fileReplayer) handle() *vfs.Handle {
	f, _, err := r.vfs.Open("f", sqlitevfs.OPEN_MAIN_DB|sqlitevfs.OPEN_CREATE|sqlitevfs.OPEN_READWRITE)
	r.must(err)
	return f.(*vfs.Handle)
}

func (r *fileReplayer) close() {
	r.pinned = nil
	r.must(errors.Join(r.file.Close(), r.look.Close(), r.vfs.Unmount("f"), r.rig.Actor.Close(), r.rig.Store.Close()))
}

// run runs one line.
func (r *fileReplayer) run(line string) error {
	head, rest, _ := strings.Cut(line, "; ")
	w := strings.Fields(head)
	var err error
	switch w[0] {
	case "tx":
		var writes []string
		if rest != "" {
			writes = strings.Split(rest, "; ")
		}
		err = r.tx(w[1], w[2:], writes)
	case "read":
		var got []byte
		if got, err = r.read(r.handle, number(w[1]), number(w[2])); err == nil {
			err = same("read", got, section(r.model, number(w[1]), number(w[2])))
		}
	case "pin":
		if r.pinned == nil {
			r.must(r.look.Lock(sqlitevfs.LOCK_SHARED))
			r.pinned = append([]byte{}, r.model...)
		}
	case "unpin":
		r.pinned = nil
		err = r.look.Unlock(sqlitevfs.LOCK_NONE)
	case "reopen":
		r.close()
		r.open()
	default:
		err = fmt.Errorf("unknown operation %q", w[0])
	}
	if err != nil {
		return err
	}
	return r.compare()
}

// compare reads everything that can be seen.
func (r *fileReplayer) compare() error {
	got, err := r.read(r.handle, 0, int64(len(r.model))+chunked.Size+3)
	if err == nil {
		err = same("committed", got, r.model)
	}
	if err == nil && r.pinned != nil {
		pinned := make([]byte, len(r.pinned)+5)
		n, readErr := r.look.ReadAt(pinned, 0)
		if readErr != io.EOF {
			return fmt.Errorf("pinned reader: %w", readErr)
		}
		err = same("pinned", pinned[:n], r.pinned)
	}
	if used, counted := r.rig.Actor.Used(), rig.Counted(r.t, r.rig.Actor); err == nil && used != counted {
		err = fmt.Errorf("the actor believes %d bytes are used, its keys hold %d", used, counted)
	}
	return err
}

// read reads the newest committed state with a handle of its own.
func (r *fileReplayer) read(open func() *vfs.Handle, off, n int64) ([]byte, error) {
	h := open()
	b := make([]byte, n)
	err := h.Lock(sqlitevfs.LOCK_SHARED)
	got := 0
	if err == nil {
		if got, err = h.ReadAt(b, off); err == io.EOF {
			err = nil
		}
	}
	return b[:got], errors.Join(err, h.Unlock(sqlitevfs.LOCK_NONE), h.Close())
}

func same(what string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	return fmt.Errorf("%s: %d bytes, want %d; the first difference is at %d", what, len(got), len(want), at)
}

// section returns what a read of n bytes at off yields.
func section(b []byte, off, n int64) []byte {
	b = b[min(off, int64(len(b))):]
	return b[:min(n, int64(len(b)))]
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic("bad number " + s)
	}
	return n
}

// pattern makes what a write stores.
func pattern(n int64, seed string) []byte {
	if seed == "ff" {
		return bytes.Repeat([]byte{0xff}, int(n))
	}
	b := make([]byte, n)
	x := uint32(number(seed))*2654435761 + 1
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

// apply returns what a write makes of b, and leaves b alone.
func apply(b []byte, write string) []byte {
	w := strings.Fields(write)
	if w[0] == "truncate" {
		return resize(b, number(w[1]))
	}
	data := pattern(number(w[2]), w[3])
	b = bytes.Clone(resize(b, max(int64(len(b)), number(w[1])+int64(len(data)))))
	copy(b[number(w[1]):], data)
	return b
}

func resize(b []byte, n int64) []byte {
	if n <= int64(len(b)) {
		return b[:n:n]
	}
	return append(bytes.Clone(b), make([]byte, n-int64(len(b)))...)
}

// tx runs a transaction to its end, checks what the writer sees in it, and what is
// there afterwards.
func (r *fileReplayer) tx(mode string, end, writes []string) error {
	from := r.tape.Len()
	r.must(r.file.Lock(sqlitevfs.LOCK_SHARED))
	r.must(r.file.Lock(sqlitevfs.LOCK_RESERVED))
	r.must(r.file.Lock(sqlitevfs.LOCK_EXCLUSIVE))
	states := [][]byte{r.model}
	var err error
	if mode == "atomic" {
		states, err = r.atomic(end[0], writes)
		if errors.Is(err, sqlite3.IOERR_COMMIT_ATOMIC) {
			r.must(r.file.RollbackAtomicWrite())
			mode = "delete" // as SQLite does it again
		}
	}
	if mode != "atomic" {
		states, err = r.journaled(mode, end[0], writes)
	}
	if err != nil {
		return err
	}
	r.must(r.file.Unlock(sqlitevfs.LOCK_NONE))
	if end[0] == "crash" {
		return r.crash(from, end[1:], states)
	}
	if err := r.recover(); err != nil {
		return err
	}
	if r.model = states[0]; end[0] == "commit" {
		r.model = states[len(states)-1]
	}
	return nil
}

// atomic is a transaction within SQLite's atomic write, up to Unlock. It returns the
// states that a crash may leave, in order.
func (r *fileReplayer) atomic(end string, writes []string) (states [][]byte, err error) {
	states = [][]byte{r.model}
	r.must(r.file.BeginAtomicWrite())
	model := r.model
	for _, w := range writes {
		if strings.HasPrefix(w, "write") {
			model = apply(model, w)
			if err := r.change(w, model); err != nil {
				return nil, err
			}
		}
	}
	switch end {
	case "rollback":
		return states, r.file.RollbackAtomicWrite()
	case "close":
		return states, nil
	}
	if err := r.file.CommitAtomicWrite(); err != nil {
		return nil, err
	}
	states = append(states, model)
	for _, w := range writes {
		// What follows a commit only shortens the file, in SQLite: it has no journal.
		if strings.HasPrefix(w, "truncate") && len(apply(model, w)) <= len(model) {
			model = apply(model, w)
			if err := r.change(w, model); err != nil {
				return nil, err
			}
		}
	}
	return append(states, model), errors.Join(r.file.Sync(0), r.file.CommitPhaseTwo())
}

// change makes one write to the file, and looks at it with the writer's eyes.
func (r *fileReplayer) change(write string, model []byte) error {
	w := strings.Fields(write)
	if w[0] == "truncate" {
		r.must(r.file.Truncate(number(w[1])))
	} else if n, err := r.file.WriteAt(pattern(number(w[2]), w[3]), number(w[1])); err != nil || int64(n) != number(w[2]) {
		return fmt.Errorf("%s: %d, %w", write, n, err)
	}
	got := make([]byte, len(model)+2*chunked.Size)
	n, err := r.file.ReadAt(got, 0)
	if err != io.EOF {
		return fmt.Errorf("%s: reading: %w", write, err)
	}
	return same("writer after "+write, got[:n], model)
}

// journaled is a transaction with an undo journal, up to Unlock.
func (r *fileReplayer) journaled(mode, end string, writes []string) (states [][]byte, err error) {
	states = [][]byte{r.model}
	j, _, err := r.vfs.Open("f-journal", sqlitevfs.OPEN_MAIN_JOURNAL|sqlitevfs.OPEN_CREATE|sqlitevfs.OPEN_READWRITE)
	r.must(err)
	u := undo{file: j, at: undoStart}
	if err := u.begin(int64(len(r.model))); err != nil {
		return nil, err
	}
	model := r.model
	for _, w := range writes {
		next := apply(model, w)
		f := strings.Fields(w)
		off, n := int64(len(next)), int64(len(model))
		if f[0] == "write" {
			off, n = number(f[1]), number(f[2])
		}
		if err := u.log(off, section(model, off, n)); err != nil {
			return nil, err
		}
		if err := r.change(w, next); err != nil {
			return nil, err
		}
		model = next
	}
	switch end {
	case "close":
		return states, j.Close()
	case "rollback":
		if err := u.undo(r.file); err != nil {
			return nil, err
		}
	default:
		states = append(states, model)
	}
	r.must(errors.Join(j.Sync(0), r.file.Sync(0)))
	switch mode {
	case "delete":
		err = r.vfs.Delete("f-journal", false)
	case "truncate":
		err = j.Truncate(0)
	case "persist":
		_, err = j.WriteAt(make([]byte, 28), 0)
	}
	return states, errors.Join(err, r.file.CommitPhaseTwo(), j.Close())
}

// crash keeps the engine commits that the script says, and recovers from that.
func (r *fileReplayer) crash(from int, counts []string, states [][]byte) error {
	made := r.tape.Len() - from
	landed := int(number(counts[0])) % (made + 1)
	r.close()
	next := r.tape.At(r.t, from+landed)
	r.must(r.tape.Close())
	r.tape = next
	r.open()
	if err := r.recover(); err != nil {
		return err
	}
	if len(counts) > 1 {
		again := int(number(counts[1])) % (r.tape.Len() + 1)
		r.close()
		next := r.tape.At(r.t, again)
		r.must(r.tape.Close())
		r.tape = next
		r.open()
		if err := r.recover(); err != nil {
			return err
		}
	}
	longest := 0
	for _, s := range states {
		longest = max(longest, len(s))
	}
	got, err := r.read(r.handle, 0, int64(longest)+chunked.Size)
	if err != nil {
		return err
	}
	if landed == made {
		states = states[len(states)-1:]
	}
	for _, s := range states {
		if bytes.Equal(got, s) {
			r.model = s
			return nil
		}
	}
	return errors.Join(fmt.Errorf("%d of %d commits landed: neither the old state nor the new", landed, made),
		same("new", got, states[len(states)-1]), same("old", got, states[0]))
}

// recover rolls back what a transaction left behind, as SQLite looks for it.
func (r *fileReplayer) recover() error {
	hot, err := r.vfs.Access("f-journal", 0)
	if err != nil || !hot {
		return err
	}
	r.must(r.file.Lock(sqlitevfs.LOCK_SHARED))
	j, _, err := r.vfs.Open("f-journal", sqlitevfs.OPEN_MAIN_JOURNAL|sqlitevfs.OPEN_READWRITE)
	r.must(err)
	r.must(r.file.Lock(sqlitevfs.LOCK_EXCLUSIVE))
	u := undo{file: j, at: undoStart}
	return errors.Join(u.undo(r.file), r.file.Sync(0), r.vfs.Delete("f-journal", false),
		r.file.CommitPhaseTwo(), j.Close(), r.file.Unlock(sqlitevfs.LOCK_NONE))
}
