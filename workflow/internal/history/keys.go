// Key layout:
//
//	key of the actor                   value
//	07 + (1, index)                    a name, UTF-8
//	07 + (2, segment, …)               v1: an entry: codec.go
//	07 + (3, 1)                        the state: pending, running, sleeping, failed,
//	                                   completed, cancelled or rolling_back
//	07 + (3, 2)                        the output, as the workflow's codec makes it
//	07 + (3, 3)                        the error, CBOR {name, message, stack?, metadata?}
//	07 + (3, 5)                        the input, as the workflow's codec makes it
//	07 + (3, 6)                        v1: what it waits for: codec.go
//	07 + (4, entry id)                 v1: metadata of the entry: codec.go
//
//	( ) is a packed tuple. A segment is the index of a name, or the nested tuple (loop,
//	iteration). v1 is a u16le version and BARE. Names are numbered from 0 without a gap,
//	and every segment has one. (3, 4) was declared once, and nothing writes it.

package history

import (
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/tuple"
)

// A field is one of the single values of a workflow.
type field uint8

// The fields, in the order in which they are written.
const (
	fieldState field = iota
	fieldOutput
	fieldError
	fieldInput
	fieldWaits
	fields // their number
)

var fieldKeys = [fields]actorstore.WorkflowField{actorstore.WorkflowState, actorstore.WorkflowOutput,
	actorstore.WorkflowError, actorstore.WorkflowInput, actorstore.WorkflowWaits}

var fieldNames = [fields]string{"state", "output", "error", "input", "waits"}

func appendNameKey(l actorstore.Layout, dst []byte, i NameIndex) []byte {
	return l.AppendWorkflowName(dst, uint32(i))
}

func appendEntryKey(layout actorstore.Layout, dst []byte, at Location) []byte {
	return layout.AppendWorkflowHistory(dst, string(at))
}

func appendFieldKey(l actorstore.Layout, dst []byte, f field) []byte {
	return l.AppendWorkflowField(dst, fieldKeys[f])
}

func appendMetadataKey(l actorstore.Layout, dst []byte, id string) []byte {
	return l.AppendWorkflowEntry(dst, id)
}

// partSize is the length of what all keys of a part begin with, in bytes.
func partSize(l actorstore.Layout) int { return len(l.Prefix(actorstore.NamespaceWorkflow)) + 2 }

// entryKeySize is the length of the key of an entry in bytes.
func entryKeySize(l actorstore.Layout, at Location) int { return partSize(l) + len(at) }

// metadataKeySize is the length of the key of metadata in bytes: the id, two bytes around
// it, and one for each NUL in it.
func metadataKeySize(l actorstore.Layout, id string) int {
	return partSize(l) + 2 + len(id) + strings.Count(id, "\x00")
}

// A parsedKey is the key of one of a workflow's values.
type parsedKey struct {
	part     actorstore.WorkflowPart
	name     NameIndex
	location Location
	field    actorstore.WorkflowField
	id       string
}

// parseKey takes a key apart. One that no workflow has is errCorrupt.
func parseKey(l actorstore.Layout, key []byte) (k parsedKey, err error) {
	part, rest, ok := l.ParseWorkflowKey(key)
	if k.part = part; !ok {
		return k, errNoKey
	}
	switch part {
	case actorstore.WorkflowHistory:
		if k.location, err = parseLocation(rest); err == nil && k.location == "" {
			err = errNoKey
		}
		return k, err
	case actorstore.WorkflowEntries:
		t, err := tuple.Unpack(rest)
		if err != nil || len(t) != 1 {
			return k, errNoKey
		}
		if k.id, ok = t[0].(string); !ok {
			return k, errNoKey
		}
		return k, nil
	}
	n, rest, ok := actorstore.ParseWorkflowNumber(rest)
	if k.name, k.field = NameIndex(n), actorstore.WorkflowField(n); !ok || len(rest) > 0 {
		return k, errNoKey
	}
	if part == actorstore.WorkflowFields && (n < uint32(actorstore.WorkflowState) || n > uint32(actorstore.WorkflowWaits)) {
		return k, errNoKey
	}
	return k, nil
}

var errNoKey = fmt.Errorf("%w: not a key of a workflow", errCorrupt)
