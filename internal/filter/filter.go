// Package filter is expressions over data: which items a query returns, and which values a
// field may have. The language is CEL, the Common Expression Language
// (https://github.com/google/cel-spec), as github.com/google/cel-go evaluates it. It has no
// syntax and no functions of ours.
//
// An expression is parsed, and not type-checked: the data has no schema. So a wrong type shows
// when the expression meets it, as ErrMismatch, which a filter takes for false. What needs no
// data is found by Compile: syntax, unknown names and functions, bad regular expressions.
//
// Data may lack fields, so a missing field is null here, and so is a field of null. In CEL
// itself both are errors. docs/expressions.md is the reference, with the table of what mixed
// numbers do.
//
// The package decides nothing about storage: it sees values, and neither keys nor indexes.
package filter

// Files, from the top down:
//
//	filter.go terms.go compile.go nodes.go match.go counter.go value.go fields.go errors.go

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

const (
	defaultSource = 4 << 10
	defaultCost   = 1 << 20
)

// Options are those of Compile. A nil *Options means the zero value.
type Options struct {
	// Names are the variables of the expression: every other identifier is a SyntaxError. If it
	// is nil, each identifier is looked up, and is null where Vars.Lookup finds none.
	Names []string
	// MaxSource is how many bytes a source may have. Zero means 4096.
	MaxSource int
	// CostLimit bounds the work of one evaluation. A unit is about 50 nanoseconds: one node of
	// the expression within a macro that loops, for each turn; ten bytes of a text that is read
	// there; one element of a list or member of a map that is compared or searched; sixteen
	// times that an instruction of a regular expression may look at a byte. Zero means 1048576.
	//
	// What stands in no loop is evaluated at most once, so the length of the source bounds it.
	CostLimit uint64
}

// Vars are the variables of one evaluation.
type Vars interface {
	// Lookup returns the value of a variable, and false if it is missing, which makes it
	// null. It may be called several times for one name, and must return the same.
	//
	// A value is nil, a bool, one of Go's integers or floats, a *big.Int, a string, a []byte, a
	// time.Time, a time.Duration, a []any, a map[string]any, a map[any]any whose numbers are
	// int, int64, uint64 or float64, an Object, or one of internal/cbor: Undefined, Object, Map,
	// Set, Uint8Array, Date. The evaluation doesn't change it and keeps none of it, but what
	// Eval returns may share the bytes of a []byte.
	Lookup(name string) (value any, ok bool)
}

// Map is Vars from a map.
type Map map[string]any

// Lookup implements Vars.
func (m Map) Lookup(name string) (any, bool) {
	v, ok := m[name]
	return v, ok
}

// A Program is a compiled expression. It may be used by several goroutines at the same time.
type Program struct {
	source string
	names  []string
	limit  uint64
	run    cel.Program
	tree   func() *ast.AST // parsed once, when it is asked for
}

// Compile returns the program of an expression. Its error is a *SyntaxError.
func Compile(source string, opts *Options) (*Program, error) {
	if opts == nil {
		opts = &Options{}
	}
	p := &Program{source: source, names: slices.Clone(opts.Names), limit: cmp.Or(opts.CostLimit, defaultCost)}
	p.tree = sync.OnceValue(func() *ast.AST { return parsed(source) })
	var err error
	if p.run, err = compile(source, p.names, cmp.Or(max(opts.MaxSource, 0), defaultSource)); err != nil {
		return nil, err
	}
	return p, nil
}

// String returns the source.
func (p *Program) String() string { return p.source }

// Eval returns the value of the expression: nil, a bool, an int64, a uint64, a float64, a
// string, a []byte, a time.Time, a time.Duration, a []any of them or a map[string]any. Its
// errors are ErrMismatch, ErrTooCostly, and the cause of ctx's end, which is looked for at the
// beginning and in loops. A panic of vars, too, becomes an error.
func (p *Program) Eval(ctx context.Context, vars Vars) (any, error) {
	v, err := p.eval(ctx, vars)
	if err != nil {
		return nil, err
	}
	left := p.limit
	return guarded(func() (any, error) { return toGo(v, &left) })
}

// Match reports whether the expression is true. Where it is neither true nor false that is an
// ErrMismatch; the other errors are those of Eval. With an error, Match returns false.
func (p *Program) Match(ctx context.Context, vars Vars) (bool, error) {
	v, err := p.eval(ctx, vars)
	if err != nil {
		return false, err
	}
	if b, ok := v.(types.Bool); ok {
		return bool(b), nil
	}
	return false, &mismatch{fmt.Errorf("the result is of the type %s, not bool", v.Type().TypeName())}
}

func (p *Program) eval(ctx context.Context, vars Vars) (ref.Val, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("filter: evaluate: %w", context.Cause(ctx))
	}
	out, _, err := p.run.Eval(&activation{p.names, vars, counter{ctx, p.limit, stepsPerLook}})
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("filter: evaluate: %w", context.Cause(ctx))
	}
	switch e := err.(type) {
	case *types.Err:
		return nil, &mismatch{e}
	case interpreter.EvalCancelledError:
		if e.Cause == interpreter.CostLimitExceeded {
			return nil, ErrTooCostly
		}
	}
	return nil, fmt.Errorf("filter: evaluate: %w", err)
}

// guarded returns what fn does, and an error for a panic.
func guarded(fn func() (any, error)) (v any, err error) {
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("filter: panic: %v", r)
		}
	}()
	return fn()
}

// An activation is how the interpreter asks for variables.
type activation struct {
	names   []string
	vars    Vars
	counter counter
}

// ResolveName implements interpreter.Activation. In a program with names any other name is
// that of a type, such as int, which the interpreter knows.
func (a *activation) ResolveName(name string) (any, bool) {
	if name == counterName {
		return &a.counter, true
	}
	if a.names != nil && !slices.Contains(a.names, name) {
		return nil, false
	}
	v, ok := a.vars.Lookup(name)
	if !ok {
		return missing, true
	}
	return adapter{}.NativeToValue(v), true
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }
