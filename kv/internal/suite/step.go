package suite

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

// A Step is one thing that a commit, a transaction or a reader does. This is the language of all scripts; words are
// separated by spaces, and steps by semicolons:
//
//	set K V · clear K · clearrange K K · MUTATION K V
//	is K V · absent K
//	get K · scan START END [limit N] [reverse] [stop N] · key K OFFSET [orequal]
//	begin · open · commit [durable] · cancel · close
//
// A loop over a scan with stop is left after N entries. A read behind the word snapshot doesn't count for conflicts. A
// read may end with = and what it must return: a value or key in quotes, entries as "key"="value", - for nothing; the
// commit of a transaction with = ok or = conflict. Bytes
// are a plain word, a quoted Go string, nil, pattern(length,seed), or long and a quoted Go string, which is that
// behind longPrefix.
type Step struct {
	Verb       string // "mutation" for all of them
	Key, Value []byte
	Mutation   txn.Mutation
	Range      kv.Range
	Stop       int
	OrEqual    bool
	Offset     int
	Snapshot   bool
	Durable    bool
	Saw        string // what a read returned, or must return
}

// Writes reports whether the step changes something.
func (s *Step) Writes() bool {
	switch s.Verb {
	case "set", "clear", "clearrange", "mutation":
		return true
	}
	return false
}

// Op returns the operation of a step that writes, and isn't a mutation.
func (s *Step) Op() kv.Op {
	kinds := map[string]kv.OpKind{"set": kv.OpSet, "clear": kv.OpClear, "clearrange": kv.OpClearRange}
	return kv.Op{Kind: kinds[s.Verb], Key: s.Key, Value: s.Value}
}

// span returns the keys that a step writes.
func (s *Step) span() txn.Span {
	if s.Verb == "clearrange" {
		return txn.Span{Start: s.Key, End: s.Value}
	}
	return KeySpan(s.Key)
}

// KeySpan is the span of one key.
func KeySpan(key []byte) txn.Span { return txn.Span{Start: key, End: append(bytes.Clone(key), 0)} }

// String returns the step as Parse reads it, with what it saw.
func (s *Step) String() string {
	words := []string{s.Verb}
	if s.Verb == "mutation" {
		words[0] = s.Mutation.String()
	}
	bound := func(b []byte) string {
		if b == nil {
			return "nil"
		}
		return show(string(b))
	}
	option := func(is bool, text ...any) {
		if is {
			words = append(words, strings.TrimSpace(fmt.Sprintln(text...)))
		}
	}
	option(s.Verb != "scan", bound(s.Key))
	option(s.Writes() && s.Verb != "clear", bound(s.Value))
	option(s.Verb == "scan", bound(s.Range.Start), bound(s.Range.End))
	option(s.Range.Limit > 0, "limit", s.Range.Limit)
	option(s.Range.Reverse, "reverse")
	option(s.Stop > 0, "stop", s.Stop)
	option(s.Verb == "key", s.Offset)
	option(s.OrEqual, "orequal")
	option(s.Saw != "", "=", s.Saw)
	return strings.Join(words, " ")
}
