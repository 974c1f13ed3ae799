package limits

import (
	"bytes"
	"context"
	"iter"
	"time"

	"github.com/greenroomdb/greenroom/kv"
)

// An Info is what a limit has given, for one value of its label.
type Info struct {
	Name, Value string
	Held        int       // permits
	Full        time.Time // when the bucket is full, if it isn't yet or wasn't lately; zero for none
	Waiting     int       // places in the line, at most MostCounted
	Key         []byte    // where List goes on behind it; its own
}

// MostCounted bounds how far a line is counted.
const MostCounted = 10_000

// List yields the limits of a store in the order of their names and values: those of which something is stored, or of these the ones of a name, "" for all. It begins behind the key of an
// earlier Info; nil means with the first.
func List(ctx context.Context, r kv.Reader, name string, behind []byte) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		start, end := root.Range()
		if name != "" {
			start, end = root.Sub(name).Range()
		}
		if behind != nil {
			start = append(bytes.Clone(behind), 0)
		}
		for {
			info, next, err := first(ctx, r, start, end)
			if err == nil && next == nil || !yield(info, err) || err != nil {
				return
			}
			start = next
		}
	}
}

// IsKey reports whether b may be the Key of an Info.
func IsKey(b []byte) bool { return root.Contains(b) }

// first returns the first limit in a range, and where the next one begins: nil without one.
func first(ctx context.Context, r kv.Reader, start, end []byte) (info Info, next []byte, err error) {
	for e, err := range r.Scan(ctx, kv.Range{Start: start, End: end, Limit: 1}) {
		if err != nil {
			return Info{}, nil, err
		}
		name, err := firstText(root, e.Key)
		if err != nil {
			return Info{}, nil, err
		}
		records := root.Sub(name, int64(kindRecord))
		if !records.Contains(e.Key) { // rows of another kind, behind the records of the limit
			_, next := root.Sub(name).Range()
			return first(ctx, r, next, end)
		}
		rec, err := parseRecord(e.Key, e.Value)
		if err != nil {
			return Info{}, nil, err
		}
		value, err := firstText(records, e.Key)
		if err != nil {
			return Info{}, nil, err
		}
		info = Info{Name: name, Value: value, Held: int(rec.held), Key: bytes.Clone(e.Key)}
		if rec.spent != 0 {
			info.Full = time.Unix(0, rec.spent)
		}
		next = append(bytes.Clone(e.Key), 0)
	}
	if next == nil {
		return Info{}, nil, nil
	}
	from, to := root.Sub(info.Name, int64(kindLine), info.Value).Range()
	for _, err := range r.Scan(ctx, kv.Range{Start: from, End: to, Limit: MostCounted}) {
		if err != nil {
			return Info{}, nil, err
		}
		info.Waiting++
	}
	return info, next, nil
}

// A Permit is one that is held.
type Permit struct {
	Claimant
	Until time.Time // when it ends unless it is renewed; zero for one that doesn't end by itself
}

// Permits yields the permits that are held of a limit, for a value of its label, in the order of their actors.
func Permits(ctx context.Context, r kv.Reader, name, value string) iter.Seq2[Permit, error] {
	return func(yield func(Permit, error) bool) {
		for p, err := range permitsOf(ctx, r, root.Sub(name, int64(kindHeld), value)) {
			var out Permit
			if err == nil {
				out = Permit{p.Claimant, p.until}
			}
			if !yield(out, err) {
				return
			}
		}
	}
}

// Line yields the places in the line of a limit, for a value of its label: by the values of Fair, and those of one in the order in which they are served.
func Line(ctx context.Context, r kv.Reader, name, value string) iter.Seq2[Head, error] {
	lines := root.Sub(name, int64(kindLine), value)
	return func(yield func(Head, error) bool) {
		start, end := lines.Range()
		for e, err := range r.Scan(ctx, kv.Range{Start: start, End: end}) {
			var h Head
			if err == nil {
				h, err = parseLine(lines, e)
			}
			if !yield(h, err) || err != nil {
				return
			}
		}
	}
}
