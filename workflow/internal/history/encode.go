package history

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/greenroomdb/greenroom/batch"
)

// maxText bounds a text of an error, in bytes: a longer one is cut. So an error can always
// be recorded.
const maxText = 16 << 10

// encode makes e what can be stored, and appends its stored form to dst, of which the
// result is a part that nothing else writes to.
func (c *contents) encode(e *Entry, dst []byte) ([]byte, error) {
	kind, err := cleanKind(e.Kind)
	switch {
	case err != nil:
	case e.Location == "":
		err = errors.New("the root has no entry")
	case !utf8.ValidString(e.ID):
		err = errors.New("its id is not UTF-8")
	default:
		err = c.named(e.Location)
	}
	if err != nil {
		return nil, fmt.Errorf("%w entry %s: %w", errInvalid, c.Path(e.Location), err)
	}
	e.Kind = kind
	value := piece(dst, appendEntry(dst, e))
	var buf [128]byte
	if err := c.fitsAt(e.Location, appendEntryKey(c.actor.Layout(), buf[:0], e.Location), value); err != nil {
		return nil, err
	}
	return value, c.fitsAt(e.Location, appendMetadataKey(c.actor.Layout(), buf[:0], e.ID), nil)
}

// encodeMetadata does the same for metadata.
func (c *contents) encodeMetadata(l Location, id string, m *Metadata, dst []byte) ([]byte, error) {
	if int(m.Status) >= len(statuses) {
		return nil, fmt.Errorf("%w metadata of %s: status %d", errInvalid, c.Path(l), m.Status)
	}
	m.Error, m.RollbackError = cleanText(m.Error), cleanText(m.RollbackError)
	value := piece(dst, appendMetadata(dst, m))
	var buf [64]byte
	return value, c.fitsAt(l, appendMetadataKey(c.actor.Layout(), buf[:0], id), value)
}

// piece returns what was appended to dst.
func piece(dst, extended []byte) []byte { return extended[len(dst):] }

// named returns an error if a segment of l has no name.
func (c *contents) named(l Location) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for s := range l.segments() {
		if int64(s.Name) >= int64(len(c.m.names)) {
			return fmt.Errorf("there is no name %d", s.Name)
		}
	}
	return nil
}

func (c *contents) fitsAt(l Location, key, value []byte) error {
	if err := c.limits.Check(batch.Op{Kind: batch.Put, Key: key, Value: value}); err != nil {
		return sizeError(c.Path(l), err)
	}
	return nil
}

// sizeError returns err, of batch.Limits.Check, as a *SizeError; path names the value for people.
func sizeError(path string, err error) error {
	var limit *batch.LimitError
	if errors.As(err, &limit) {
		return &SizeError{Path: path, What: limit.What, Size: limit.Size, Limit: limit.Limit, Err: limit}
	}
	return err
}

// cleanKind returns k with texts of errors that can be stored, or says why it can't be.
func cleanKind(kind Kind) (Kind, error) {
	switch k := kind.(type) {
	case nil:
		return nil, errors.New("it has no kind")
	case Step:
		// What needn't change isn't put into memory of its own again.
		if text := cleanText(k.Error); text != k.Error {
			k.Error = text
			return k, nil
		}
	case Loop:
		if k.State == nil {
			k.State = present(k.State)
			return k, nil
		}
	case Sleep:
		if int(k.State) >= len(sleepStates) {
			return nil, fmt.Errorf("state %d", k.State)
		}
	case Message:
		k.Data = present(k.Data)
		return k, checkText(&k.Name)
	case Checkpoint:
		return kind, checkText(&k.Name)
	case Join:
		var err error
		k.Branches, err = cleanBranches(k.Branches)
		return k, err
	case Race:
		var err error
		if k.Branches, err = cleanBranches(k.Branches); err == nil {
			err = checkText(k.Winner)
		}
		return k, err
	case Removed:
		return k, errors.Join(checkText(&k.Original), checkText(k.Name))
	}
	return kind, nil
}

// cleanBranches returns branches with texts of errors that can be stored, in memory of its
// own if that takes a change.
func cleanBranches(branches []Branch) ([]Branch, error) {
	if branches == nil {
		return []Branch{}, nil
	}
	seen := make(map[string]bool, len(branches))
	cleaned := false
	for i, b := range branches {
		switch {
		case int(b.Status) >= len(branchStatuses):
			return nil, fmt.Errorf("branch %q: status %d", b.Name, b.Status)
		case seen[b.Name]:
			return nil, fmt.Errorf("branch %q comes twice", b.Name)
		}
		if err := checkText(&b.Name); err != nil {
			return nil, err
		}
		seen[b.Name] = true
		if text := cleanText(b.Error); text != b.Error {
			if !cleaned {
				branches, cleaned = append([]Branch{}, branches...), true
			}
			branches[i].Error = text
		}
	}
	return branches, nil
}

// present returns v, or the empty value if it is missing where it must not be.
func present(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return v
}

func checkText(s *string) error {
	if s != nil && !utf8.ValidString(*s) {
		return fmt.Errorf("%q is not UTF-8", clip(*s))
	}
	return nil
}

// cleanText returns an error's text as it can be stored; s itself if it can be.
func cleanText(s *string) *string {
	if s == nil || len(*s) <= maxText && utf8.ValidString(*s) {
		return s
	}
	return new(errorText(*s))
}
