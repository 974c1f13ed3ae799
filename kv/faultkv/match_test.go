package faultkv_test

import (
	"testing"

	"github.com/greenroomdb/greenroom/kv"
	"github.com/greenroomdb/greenroom/kv/faultkv"
)

func TestMatch(t *testing.T) {
	read := func(key string) faultkv.Op { return faultkv.Op{Point: faultkv.BeforeGet, Key: []byte(key)} }
	scan := func(start, end string) faultkv.Op {
		op := faultkv.Op{Point: faultkv.BeforeScan, Range: kv.Range{Start: []byte(start), End: []byte(end)}}
		if end == "∞" {
			op.Range.End = nil
		}
		return op
	}
	write := func(ops ...kv.Op) faultkv.Op {
		return faultkv.Op{Point: faultkv.AfterApply, Commit: &kv.Commit{Ops: ops}}
	}
	b := func(s string) []byte { return []byte(s) }
	check := faultkv.Op{Point: faultkv.BeforeCommit, Commit: &kv.Commit{Checks: []kv.Check{{Key: b("ab")}}}}

	for name, tt := range map[string]struct {
		op          faultkv.Op
		key, prefix bool // whether Key("ab") and Prefix("ab") match
	}{
		"get":              {read("ab"), true, true},
		"get longer":       {read("abc"), false, true},
		"get shorter":      {read("a"), false, false},
		"get other":        {read("ac"), false, false},
		"entry":            {faultkv.Op{Point: faultkv.BeforeEntry, Key: b("ab"), Range: kv.Range{}}, true, true},
		"entry beside":     {faultkv.Op{Point: faultkv.BeforeEntry, Key: b("b"), Range: kv.Range{}}, false, false},
		"scan all":         {scan("", "∞"), true, true},
		"scan from":        {scan("ab", "∞"), true, true},
		"scan below":       {scan("a", "ab"), false, false},
		"scan beyond":      {scan("abc", "b"), false, true},
		"scan after":       {scan("ac", "∞"), false, false},
		"scan nothing":     {scan("b", "a"), false, false},
		"scan empty end":   {scan("", ""), false, false},
		"check":            {check, true, true},
		"set":              {write(kv.Set(b("x"), b("ab")), kv.Set(b("ab"), nil)), true, true},
		"set longer":       {write(kv.Set(b("ab\x00"), nil)), false, true},
		"set value only":   {write(kv.Set(b("x"), b("ab"))), false, false},
		"clear":            {write(kv.Clear(b("ab"))), true, true},
		"clear range over": {write(kv.ClearRange(nil, b("z"))), true, true},
		"clear range at":   {write(kv.ClearRange(b("ab"), b("abc"))), true, true},
		"clear range up":   {write(kv.ClearRange(b("a"), b("ab"))), false, false},
		"nothing":          {write(), false, false},
		"snapshot":         {faultkv.Op{Point: faultkv.BeforeSnapshot}, false, false},
		"outcome":          {faultkv.Op{Point: faultkv.BeforeOutcome, ID: kv.CommitID{1}}, false, false},
	} {
		if got := faultkv.Key(b("ab"))(tt.op); got != tt.key {
			t.Errorf("%s: Key says %v", name, got)
		}
		if got := faultkv.Prefix(b("ab"))(tt.op); got != tt.prefix {
			t.Errorf("%s: Prefix says %v", name, got)
		}
	}
}

// TestPrefixAtTheEnd: prefixes that no key is above.
func TestPrefixAtTheEnd(t *testing.T) {
	for _, tt := range []struct {
		prefix, key string
		want        bool
	}{
		{"", "", true}, {"", "\xff\xff", true}, {"\xff", "\xff\xff", true}, {"\xff", "\xfe", false},
		{"a\xff", "a\xff\xff", true}, {"a\xff", "b", false}, {"a\xff", "a", false},
	} {
		op := faultkv.Op{Point: faultkv.BeforeGet, Key: []byte(tt.key)}
		if got := faultkv.Prefix([]byte(tt.prefix))(op); got != tt.want {
			t.Errorf("prefix %q, key %q: got %v", tt.prefix, tt.key, got)
		}
	}
}

// TestMatchKeepsNothing: the caller's key may change.
func TestMatchKeepsNothing(t *testing.T) {
	key := []byte("ab")
	byKey, byPrefix := faultkv.Key(key), faultkv.Prefix(key)
	key[0] = 'x'
	op := faultkv.Op{Point: faultkv.BeforeGet, Key: []byte("ab")}
	if !byKey(op) || !byPrefix(op) {
		t.Errorf("key %v, prefix %v", byKey(op), byPrefix(op))
	}
}
