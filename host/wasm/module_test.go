package wasm

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/tetratelabs/wazero"
)

// Instructions of all forms, which leave nothing: what a counter must read, and not change.
var everything = code(
	0x01, 0x02, noResult, 0x0c, 0, 0x01, opEnd, // nop, block, br
	0x02, noResult, i32(0), 0x0e, 2, 0, 0, 0, opEnd, // br_table
	i32(1), opIf, noResult, 0x01, 0x05, 0x01, opEnd, // else
	i32(1), i32(2), i32(0), 0x1b, opDrop, i32(1), i32(2), i32(0), 0x1c, 1, typeI32, opDrop, // select
	i32(8), 0x28, 2, 0x80, 1, opDrop, i32(8), i32(0), 0x36, 2, 4, // load, store
	0x42, 0x80, 0x7f, opDrop, 0x43, 3, 0x0b, 3, 3, opDrop, 0x44, 3, 0x0b, 3, 3, 3, 3, 3, 3, opDrop, // constants that look like a loop
	opMemorySize, 0, opDrop, i32(0), opMemoryGrow, 0, opDrop,
	i32(3), 0xc0, opDrop, 0x43, 0, 0, 0, 0, opBulk, 0, opDrop, // extend8_s, trunc_sat
	i32(0), i32(0), i32(0), opBulk, 10, 0, 0, i32(0), i32(0), i32(0), opBulk, 11, 0, // memory.copy, memory.fill
	i32(0), i32(0), i32(0), opBulk, 14, 0, 0, opBulk, 16, 0, opDrop, // table.copy, table.size
	0xd0, typeFuncref, i32(0), opBulk, 15, 0, opDrop, i32(0), 0xd0, typeFuncref, i32(0), opBulk, 17, 0, // table.grow, table.fill
	i32(0), i32(0), i32(0), opBulk, 12, 3, 0, opBulk, 13, 3, // table.init, elem.drop
	i32(0), 0x25, 0, 0xd1, opDrop, i32(0), insRefFunc, own(funcMore), 0x26, 0, // table.get, ref.is_null, table.set, ref.func
	insGlobalGet, 0, insGlobalSet, 0,
	0xfd, 12, bytes.Repeat([]byte{3}, 16), 0xfd, 12, bytes.Repeat([]byte{3}, 16), 0xfd, 13, bytes.Repeat([]byte{3}, 16), // shuffle
	0xfd, 21, 3, opDrop, i32(0), 0xfd, 0, 0, 3, opDrop, // extract_lane, v128.load
	i32(0), i32(0), 0xfd, 15, 0xfd, 84, 0, 3, 3, opDrop, i32(0), 0xfd, 92, 2, 3, opDrop, // splat, load_lane, load32_zero
	i32(0), 0xfd, 15, 0xfd, 0x63, opDrop, i32(0), 0xfd, 15, 0xfd, 0xe0, 1, opDrop, // all_true, one of two bytes
)

// full has sections of all kinds. Its actions call more by all ways that there are, which
// counts in global 0; so does its start function.
func full(hostile []byte) *tiny {
	expr := code(insRefFunc, own(funcMore), opEnd)
	at := func(n uint32) []byte { return code(i32(n), opEnd) }
	return &tiny{
		tables:  code(1, typeFuncref, 0, 8),
		globals: vector(code(typeI32, 1, i32(0), opEnd), code(typeFuncref, 0, expr)),
		more:    code(insGlobalGet, 0, i32(1), 0x6a, insGlobalSet, 0),
		main:    own(funcMore),
		elems: vector(
			code(0, at(0), 1, own(funcMore)),
			code(2, 0, at(1), 0, 1, own(funcMore)),
			code(3, 0, 1, own(funcMore)),
			code(1, 0, 1, own(funcMore)),
			code(4, at(2), 1, expr),
			code(6, 0, at(3), typeFuncref, 1, expr),
			code(5, typeFuncref, 1, expr),
			code(7, typeFuncref, 1, expr),
		),
		hostile: hostile,
	}
}

// TestCounting: a module that counts is the same as before.
func TestCounting(t *testing.T) {
	calls := code(opCall, own(funcMore))
	for i := range uint32(4) {
		calls = code(calls, i32(i), 0x11, 2, 0) // call_indirect
	}
	calls = code(calls,
		i32(4), i32(0), i32(1), opBulk, 12, 3, 0, i32(4), 0x11, 2, 0, // what is passive
		i32(5), insGlobalGet, 1, 0x26, 0, i32(5), 0x11, 2, 0, // what a global has
		insGlobalGet, 0, i32(8), opNe, opIf, noResult, opUnreachable, opEnd,
		everything)
	for engine, interpret := range engines {
		t.Run(engine, func(t *testing.T) {
			if err := attack(t, full(calls), Options{Interpret: interpret}); err != nil {
				t.Error(err)
			}
		})
	}
	for _, use := range []int{insGlobalGet, insGlobalSet} {
		m := full(code(i32(0), use, 2, opDrop))
		if _, err := Compile(t.Context(), "thing", m.build(t), nil); !errors.Is(err, ErrModule) {
			t.Errorf("instruction %#x of the global that counts: %v", use, err)
		}
	}
}

// TestCounts: a module that says that it has four thousand million of something is
// refused before room is made for them.
func TestCounts(t *testing.T) {
	most := uleb(0xffffffff)
	ok := full(everything).build(t)
	if _, err := prepare(ok); err != nil {
		t.Fatal(err)
	}
	for id := byte(sectionType); id <= sectionData; id++ {
		if id == sectionStart || id == sectionTable {
			continue
		}
		for name, content := range map[string][]byte{"count": most, "count and one": code(most, 0, 0, 0, 0)} {
			if _, err := prepare(code([]byte(preamble), section(int(id), content))); err == nil {
				t.Errorf("section %d, %s: no error", id, name)
			}
		}
	}
	for name, b := range map[string][]byte{
		"locals":     section(sectionCode, vector(code(uleb(8), 1, most, typeI32, opEnd))),
		"locals sum": section(sectionCode, vector(code(uleb(18), 2, most, 0x7f, most, 0x7f, opEnd))),
		"parameters": section(sectionType, vector(code(typeFunc, most))),
		"results":    section(sectionType, vector(code(typeFunc, 0, most))),
		"data":       section(sectionData, vector(code(1, most))),
		"name":       section(sectionExport, vector(code(most))),
		"twice":      code(section(sectionType, vector()), section(sectionType, vector())),
		"tags":       section(13, vector()),
	} {
		if _, err := prepare(code([]byte(preamble), b)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzPrepare: what the runtime takes it takes still when it has been changed.
func FuzzPrepare(f *testing.F) {
	for _, m := range []*tiny{full(everything), {tables: code(1, typeFuncref, 0, 8), more: forever()}, {}} {
		b := m.build(f)
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	for op := range 256 {
		f.Add((&tiny{more: code(op, 0, 0, 0, 0)}).build(f))
		f.Add((&tiny{more: code(0xfd, op, 1, 0, 0, 0)}).build(f))
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		ctx := context.Background()
		compile := func(b []byte) error {
			r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
			_, err := r.CompileModule(ctx, b)
			return errors.Join(err, r.Close(ctx))
		}
		b, err := prepare(code)
		if err == nil && compile(code) == nil {
			if err := compile(b); err != nil {
				t.Error(err)
			}
		}
	})
}
