package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/archive/bucket"
	"github.com/greenroomdb/greenroom/internal/errkind"
	"github.com/greenroomdb/greenroom/kv"
)

// ErrNoState: the state that was asked for isn't kept, or not any more: it may be removed while it is read.
var ErrNoState = errkind.New("archive: no such state is kept", errkind.ErrNotFound)

// An Archive is a bucket with backups, open for reading. Its methods are safe for concurrent use, and beside a Writer.
type Archive struct {
	bucket   bucket.Bucket
	manifest Manifest
}

// Open opens the backups in a bucket. The error is ErrNotArchive if there are none, and ErrEncrypted if b doesn't decrypt them.
func Open(ctx context.Context, b bucket.Bucket) (*Archive, error) {
	m, err := readManifest(ctx, b)
	if err != nil {
		return nil, err
	}
	return &Archive{b, m}, nil
}

// Manifest returns what the archive says of itself.
func (a *Archive) Manifest() Manifest { return a.manifest }

// A Bookmark names a state: what a store had with one commit, in one lineage of one archive. The zero Bookmark names nothing.
type Bookmark struct {
	// Archive is the beginning of the archive's id, 8 digits in hex.
	Archive string
	// Line is the lineage, and Number that of the commit.
	Line, Number uint64
}

// String returns the bookmark as text: ARCHIVE-LINE-NUMBER.
func (m Bookmark) String() string { return fmt.Sprintf("%s-%d-%d", m.Archive, m.Line, m.Number) }

// ErrBookmark: a text isn't a bookmark, or one of another archive.
var ErrBookmark = errors.New("archive: not a bookmark of this archive")

// ParseBookmark parses what String returns. The error is ErrBookmark.
func ParseBookmark(text string) (m Bookmark, err error) {
	parts := strings.Split(text, "-")
	if len(parts) == 3 && len(parts[0]) == archiveDigits {
		m.Archive = parts[0]
		line, lerr := strconv.ParseUint(parts[1], 10, 64)
		number, nerr := strconv.ParseUint(parts[2], 10, 64)
		if m.Line, m.Number = line, number; lerr == nil && nerr == nil && m.Line > 0 && m.String() == text {
			return m, nil
		}
	}
	return Bookmark{}, fmt.Errorf("%w: %.80q", ErrBookmark, text)
}

// archiveDigits is how many digits of an archive's id a bookmark has.
const archiveDigits = 8

// bookmark returns the bookmark of a state of the archive.
func (m *Manifest) bookmark(line, number uint64) Bookmark {
	return Bookmark{m.ID.String()[:archiveDigits], line, number}
}

// A Line is a lineage of an archive.
type Line struct {
	// Number is the epoch in which it began.
	Number uint64
	// First and Last are its first and last state, of which Begun and Ended are the times.
	First, Last  Bookmark
	Begun, Ended time.Time
	// Bases and Segments are how many it has, Bytes how many bytes these and the lists of those take. Tables aren't counted: lineages share them.
	Bases, Segments int
	Bytes           int64
}

// Lines returns the lineages, the oldest first.
func (a *Archive) Lines(ctx context.Context) ([]Line, error) {
	found, err := readLines(ctx, a.bucket)
	if err != nil {
		return nil, err
	}
	var lines []Line
	for _, f := range found {
		l := Line{Number: f.number}
		if err := again(func() error { return a.describe(ctx, &l) }); err != nil {
			return nil, err
		}
		if l.Bases > 0 { // or all of it was too old
			lines = append(lines, l)
		}
	}
	return lines, nil
}

// describe says of a lineage what there is to say.
func (a *Archive) describe(ctx context.Context, l *Line) error {
	*l = Line{Number: l.Number}
	bases, err := readBases(ctx, a.bucket, l.Number)
	if err != nil || len(bases) == 0 {
		return err
	}
	log, err := readLog(ctx, a.bucket, l.Number)
	if err != nil {
		return err
	}
	first, err := readBase(ctx, a.bucket, bases[0].name)
	if err != nil {
		return err
	}
	at, err := lastPlace(ctx, a.bucket, l.Number)
	if err != nil {
		return err
	}
	l.First, l.Last = a.manifest.bookmark(l.Number, first.Number), a.manifest.bookmark(l.Number, max(at.last, first.Number))
	l.Begun, l.Ended = first.Time, later(first.Time, time.UnixMilli(at.ms).UTC())
	l.Bases, l.Segments = len(bases), len(log)
	for _, o := range slices.Concat(bases, log) {
		l.Bytes += o.size
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Verify reads everything that is kept: each base, each table of one, each segment, and compares checksums, and that segments follow each
// other. It hands what is wrong to problem, each time with the name of an object, and goes on; progress, unless it is nil, is told how many
// bytes were read, of about how many. The error is that of the bucket or of ctx, which ends it.
func (a *Archive) Verify(ctx context.Context, problem func(error), progress func(read, total int64)) (Verified, error) {
	return verify(ctx, a.bucket, problem, progress)
}

// At returns the last state at a time or before, and when its last commit was made, which for the first state of a lineage is when that began.
// Of lineages whose times overlap, because a clock was wrong, it is the state of the latest time. The error is ErrNoState if nothing of that time is kept.
func (a *Archive) At(ctx context.Context, t time.Time) (m Bookmark, made time.Time, err error) {
	found := false
	err = a.backward(ctx, t, func(of Bookmark, at time.Time) bool {
		if !found || at.After(made) {
			found, m, made = true, of, at
		}
		return true
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: of %s or before", ErrNoState, t.UTC().Format(time.RFC3339))
	}
	return m, made, err
}

// Last returns the last state, whatever the clock of its store said, and when its last commit was made; see At.
func (a *Archive) Last(ctx context.Context) (m Bookmark, made time.Time, err error) {
	found := false
	err = a.backward(ctx, time.UnixMilli(math.MaxInt64), func(of Bookmark, at time.Time) bool {
		found, m, made = true, of, at
		return false
	})
	if err == nil && !found {
		err = ErrNoState
	}
	return m, made, err
}

// backward calls visit with the last state at a time or before of each lineage that has one, the last lineage first, until it returns false.
func (a *Archive) backward(ctx context.Context, t time.Time, visit func(m Bookmark, made time.Time) bool) error {
	lines, err := readLines(ctx, a.bucket)
	if err != nil {
		return err
	}
	for _, line := range slices.Backward(lines) {
		var m Bookmark
		var made time.Time
		err := again(func() (err error) {
			m, made, err = a.within(ctx, line.number, t)
			return err
		})
		if errors.Is(err, ErrNoState) {
			continue
		}
		if err != nil || !visit(m, made) {
			return err
		}
	}
	return nil
}

// within is At in one lineage; its ErrNoState says nothing of the time.
func (a *Archive) within(ctx context.Context, line uint64, t time.Time) (m Bookmark, made time.Time, err error) {
	bases, err := readBases(ctx, a.bucket, line)
	if err != nil {
		return m, made, err
	}
	if len(bases) == 0 {
		return m, made, ErrNoState
	}
	first, err := readBase(ctx, a.bucket, bases[0].name)
	if err != nil {
		return m, made, err
	}
	if first.Time.UnixMilli() > t.UnixMilli() { // times are shown, and given, in ms
		return m, made, ErrNoState
	}
	number, at, broken := first.Number, first.Time, true
	for list := 0; broken && list < maxLists; list++ {
		if number, at, broken, err = a.behind(ctx, first, line, t); err != nil {
			return m, made, err
		}
	}
	return a.manifest.bookmark(line, number), at, nil
}

// behind returns the last record at a time or before of a lineage, at least the one of its first base; and whether the records that follow it
// are missing from what was listed, which may have been so by chance.
func (a *Archive) behind(ctx context.Context, first *baseList, line uint64, t time.Time) (number uint64, at time.Time, broken bool, err error) {
	number, at = first.Number, first.Time
	log, err := readLog(ctx, a.bucket, line)
	if err != nil {
		return number, at, false, err
	}
	// The segments are in the order of their times, too.
	var found error
	i, _ := slices.BinarySearchFunc(log, t.UnixMilli(), func(s numbered, ms int64) int {
		x, err := readIndex(ctx, a.bucket, s.name)
		if err != nil {
			found = cmp.Or(found, err)
			return 1
		}
		if x.firstTime > ms {
			return 1
		}
		return -1
	})
	if found != nil {
		return number, at, false, found
	}
	have := number
	if i > 0 {
		x, err := readIndex(ctx, a.bucket, log[i-1].name)
		if err != nil {
			return number, at, false, err
		}
		have = max(have, x.last)
		if last := x.lastBy(t.UnixMilli()); last > number {
			number, at = last, x.timeOf(last).UTC()
		}
	}
	return number, at, i < len(log) && log[i].first > have+1, nil
}

// plan returns how the state of a bookmark is made.
func (a *Archive) plan(ctx context.Context, m Bookmark) (*plan, error) {
	if m.Archive != a.manifest.bookmark(0, 0).Archive {
		return nil, fmt.Errorf("%w: %s", ErrBookmark, m)
	}
	name, err := baseOf(ctx, a.bucket, m)
	if err != nil {
		return nil, err
	}
	base, err := readBase(ctx, a.bucket, name)
	if err != nil {
		return nil, err
	}
	p := &plan{base: base, line: m.Line}
	return p, p.reach(ctx, a.bucket, m)
}

// baseOf returns the name of the last base that a state has. The error is ErrNoState if none is kept.
func baseOf(ctx context.Context, b bucket.Bucket, m Bookmark) (string, error) {
	bases, err := readBases(ctx, b, m.Line)
	if err != nil {
		return "", err
	}
	for _, base := range slices.Backward(bases) {
		if base.first <= m.Number {
			return base.name, nil
		}
	}
	return "", fmt.Errorf("%w: %s", ErrNoState, m)
}

// gone returns why a state couldn't be read, with err, in place of err: ErrNoState if Collect has removed the state since its plan was made. Collect
// removes all bases of a state before its segments, and tables last, so if a missing segment or table is the reason no base of it is there any
// more. Other errors, and nil, stay.
func (a *Archive) gone(ctx context.Context, m Bookmark, err error) error {
	if !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, berr := baseOf(ctx, a.bucket, m); errors.Is(berr, ErrNoState) {
		return fmt.Errorf("%w any more: it was removed while it was read", berr)
	}
	return err
}
