package wasm

import (
	"bytes"
	"errors"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/actorstore"
	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// keyFunctions are those for the actor's user keys. No argument of theirs can name another
// key: all are below the actor's own.
var keyFunctions = []function{
	{name: "kv_get", body: with(keyGet)},
	{name: "kv_put", keep: true, body: with(keyPut)},
	{name: "kv_delete", keep: true, body: with(keyDelete)},
	{name: "kv_delete_range", keep: true, body: with(keyDeleteRange)},
	{name: "kv_list", body: with(keyList)},
	{name: "label", keep: true, body: with(func(c *call, l *abi.Label) (any, error) { return nil, c.host.Label(l.Key, l.Value) })},
}

// keyGet returns nil for a key that is not there, as undefined tells a module. An empty value
// is bytes.
func keyGet(c *call, key *[]byte) (any, error) {
	v, err := c.host.Get(*key)
	if errors.Is(err, greenroom.ErrNotFound) {
		return nil, nil
	}
	return v, err
}

func keyPut(c *call, e *abi.Entry) (any, error) { return nil, c.host.Put(e.Key, e.Value) }

func keyDelete(c *call, key *[]byte) (any, error) { return nil, c.host.Delete(*key) }

// keyDeleteRange removes the keys of [Start, End).
func keyDeleteRange(c *call, s *abi.Span) (any, error) {
	return nil, c.host.DeleteRange(s.Start, bound(s.End))
}

// bound returns the end of a range: an empty one means no bound.
func bound(key []byte) []byte {
	if len(key) == 0 {
		return nil
	}
	return key
}

// entryCost is what an entry takes in a page beside its bytes, at most.
const entryCost = 16

// keyList returns one page of entries, as many as fit.
func keyList(c *call, l *abi.ListOptions) (any, error) {
	page := abi.Listed{Entries: []abi.Entry{}}
	room := c.module.opts.MaxBytes - 64
	for e, err := range c.host.List(actorstore.ListOptions{
		Start: bound(l.Start), End: bound(l.End), Prefix: l.Prefix,
		Limit: max(l.Limit, 0), Reverse: l.Reverse, KeysOnly: l.KeysOnly,
	}) {
		if err == nil {
			err = c.ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		if room -= len(e.Key) + len(e.Value) + entryCost; room < 0 {
			if len(page.Entries) == 0 {
				return nil, tooLarge("the entry", c.module.opts.MaxBytes)
			}
			page.More = true
			break
		}
		page.Entries = append(page.Entries, abi.Entry{Key: bytes.Clone(e.Key), Value: bytes.Clone(e.Value)})
	}
	return page, nil
}
