package wasm

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/host/internal/abi"
)

// What modules are written with here by hand, of
// https://webassembly.github.io/spec/core/binary/instructions.html.
const (
	opUnreachable = 0x00
	opLoop        = 0x03
	opIf          = 0x04
	opEnd         = 0x0b
	opBr          = 0x0c
	opBrIf        = 0x0d
	opReturn      = 0x0f
	opCall        = 0x10
	opDrop        = 0x1a
	opLocalGet    = 0x20
	opMemorySize  = 0x3f
	opMemoryGrow  = 0x40
	opConst       = 0x41
	opLtU         = 0x49
	opGeS         = 0x4e
	opNe          = 0x47
	opSub         = 0x6b
	opBulk        = 0xfc
	noResult      = 0x40
	typeI32       = 0x7f
	typeI64       = 0x7e
	typeFunc      = 0x60
	typeFuncref   = 0x70
)

// uleb and sleb are numbers in LEB128.
func uleb(n uint32) []byte { return binary.AppendUvarint(nil, uint64(n)) }

func sleb(n int32) (b []byte) {
	for {
		c := byte(n & 0x7f)
		n >>= 7
		if n == 0 && c&0x40 == 0 || n == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// code joins instructions: bytes as they are.
func code(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

// i32 pushes a number.
func i32(n uint32) []byte { return code(opConst, sleb(int32(n))) }

// imports are what all modules here import, in this order.
var imports = func() (names []string) {
	for _, f := range functions {
		names = append(names, f.name)
	}
	return append(names, "take", "random")
}()

// callTo calls a function of the host with a place, and leaves its result.
func callTo(name string, ptr, size uint32) []byte {
	return code(i32(ptr), i32(size), opCall, uleb(uint32(slices.Index(imports, name))))
}

// Indices of functions that come after the imports.
const (
	funcVersion = iota
	funcDescribe
	funcTurn
	funcMore
)

func own(n int) []byte { return uleb(uint32(len(imports) + n)) }

// A tiny is a module that is written by hand. Its actions with short names reply with
// true; those with long ones run hostile.
type tiny struct {
	hostile []byte // instructions that leave nothing
	more    []byte // of one more function, own(funcMore)
	start   []byte // of _initialize
	data    []byte // at dataAt
	hooks   []string
	version uint32 // 0 means the right one
	always  bool   // hostile is for all events
	tables  []byte // the section of tables, if there is one
	globals []byte // that of globals
	elems   []byte // that of elements
	main    []byte // that of a start function
	pages   uint32 // 0 means 2
	without string // an export that is left out
	imports [2]string
	wasi    string // a function of WASI that is imported in the place of random
}

// Where things are in the memory of a tiny.
const (
	trueAt     = 0
	describeAt = 16
	dataAt     = 4096
)

// long is the name of an action that runs hostile, and longEvent what is less than the
// size of its event.
const (
	long      = "a name that is longer than those of the actions that do no harm, to be told from them"
	longEvent = 80
)

// section is a part of a module, vector one with a count.
func section(id int, b []byte) []byte { return code(id, uleb(uint32(len(b))), b) }

func vector(items ...[]byte) []byte {
	return code(uleb(uint32(len(items))), slices.Concat(items...))
}

func text(s string) []byte { return code(uleb(uint32(len(s))), []byte(s)) }

func body(b []byte) []byte {
	b = code(0, b, opEnd) // no locals
	return code(uleb(uint32(len(b))), b)
}

func segment(at uint32, b []byte) []byte {
	return code(0, i32(at), opEnd, uleb(uint32(len(b))), b)
}

// build returns the module.
func (m *tiny) build(t testing.TB) []byte {
	t.Helper()
	says, err := abi.Encode(abi.Description{Other: true, Hooks: m.hooks, Actions: []string{}, Messages: []string{}})
	must(t, err)
	ok := code(callTo("reply", trueAt, 1), opDrop)
	turn := code(opLocalGet, 0, i32(longEvent), opLtU, opIf, noResult, ok, opReturn, opEnd, m.hostile)
	if m.always {
		turn = m.hostile
	}
	version := m.version
	if version == 0 {
		version = abi.Version
	}
	var im [][]byte
	for _, name := range imports {
		im = append(im, code(text(abi.Module), text(name), 0, 0))
	}
	if m.imports[0] != "" {
		im[0] = code(text(m.imports[0]), text(m.imports[1]), 0, 0)
	}
	if m.wasi != "" {
		im[slices.Index(imports, "random")] = code(text("wasi_snapshot_preview1"), text(m.wasi), 0, 0)
	}
	var ex [][]byte
	for i, name := range []string{abi.VersionExport, abi.DescribeExport, abi.TurnExport, "more", "_initialize"} {
		if name != m.without {
			ex = append(ex, code(text(name), 0, own(i)))
		}
	}
	if m.without != "memory" {
		ex = append(ex, code(text("memory"), 2, 0))
	}
	describe := code(callTo("reply", describeAt, uint32(len(says))), opDrop)
	b := code([]byte(preamble),
		section(1, vector(
			code(typeFunc, 2, typeI32, typeI32, 1, typeI32), code(typeFunc, 0, 1, typeI32), code(typeFunc, 0, 0), code(typeFunc, 1, typeI32, 0),
		)),
		section(2, vector(im...)),
		section(3, []byte{5, 1, 2, 3, 2, 2}))
	if m.tables != nil {
		b = append(b, section(sectionTable, m.tables)...)
	}
	b = append(b, section(5, vector(code(0, uleb(max(m.pages, 2)))))...)
	if m.globals != nil {
		b = append(b, section(sectionGlobal, m.globals)...)
	}
	b = append(b, section(sectionExport, vector(ex...))...)
	if m.main != nil {
		b = append(b, section(sectionStart, m.main)...)
	}
	if m.elems != nil {
		b = append(b, section(sectionElement, m.elems)...)
	}
	return code(b,
		section(10, vector(body(i32(version)), body(describe), body(turn), body(m.more), body(m.start))),
		section(11, vector(segment(trueAt, []byte{0xf5}), segment(describeAt, says), segment(dataAt, m.data))))
}

// compile compiles it, for the engine that tests of small modules use.
func (m *tiny) compile(t testing.TB, opts Options) *Module {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = quiet
	}
	if opts.TurnTimeout == 0 {
		opts.TurnTimeout = time.Hour // what isn't about time has enough of it
	}
	c, err := Compile(t.Context(), "thing", m.build(t), &opts)
	must(t, err)
	return c
}
