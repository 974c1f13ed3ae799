package filter

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
)

// maxNesting is how deep an expression may be nested.
const maxNesting = 100

// environment is made once: it is the same for every Program, and takes milliseconds.
var environment = sync.OnceValues(newEnvironment)

func newEnvironment() (*cel.Env, error) {
	// Two errors of cel-go are shared by all evaluations. Whichever meets one first writes its own
	// place into it, unless it has one: give them one, before several evaluations run at once.
	types.LabelErrNode(1, types.NoSuchOverloadErr())
	types.LabelErrNode(1, types.Int(1<<62).ConvertToType(types.TimestampType))
	return cel.NewCustomEnv(
		cel.StdLib(),
		cel.CustomTypeAdapter(adapter{}),
		cel.ParserRecursionLimit(maxNesting),
		cel.DefaultUTCTimeZone(true),
		cel.EnableMacroCallTracking(), // so that an expression has a text
	)
}

// compile returns what evaluates a source whose variables have names.
func compile(source string, names []string, maxSource int) (run cel.Program, err error) {
	if len(source) > maxSource {
		return nil, at(source, common.NewLocation(1, 0), fmt.Sprintf("the expression has %d bytes, at most %d are allowed", len(source), maxSource))
	}
	if !utf8.ValidString(source) {
		return nil, at(source, common.NewLocation(1, 0), "the expression is not UTF-8")
	}
	defer func() {
		if r := recover(); r != nil {
			run, err = nil, at(source, common.NewLocation(1, 0), fmt.Sprintf("the expression can't be compiled: %v", r))
		}
	}()
	env, err := environment()
	if err != nil {
		return nil, fmt.Errorf("filter: environment: %w", err)
	}
	parsed, issues := env.Parse(source)
	if issues != nil && issues.Err() != nil {
		first := issues.Errors()[0]
		// The list of all tokens that could have come instead says nothing.
		message, _, _ := strings.Cut(strings.TrimPrefix(first.Message, "Syntax error: "), " expecting {")
		return nil, at(source, first.Location, message)
	}
	tree := parsed.NativeRep()
	w := &walker{source: source, names: names, env: env, tree: tree, turns: map[int64]uint64{}}
	w.expr(tree.Expr())
	if w.err != nil {
		return nil, w.err
	}
	plan := planner{w.turns}
	run, err = env.PlanProgram(tree, cel.CustomDecoratorV2(plan.decorate), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		where := common.NewLocation(1, 0)
		if e, ok := err.(*types.Err); ok && e.NodeID() != 0 {
			where = tree.SourceInfo().GetStartLocation(e.NodeID())
		}
		return nil, at(source, where, err.Error())
	}
	return run, nil
}

// at returns an error with a place, whose line counts from 1, and whose column in characters
// from 0.
func at(source string, where common.Location, message string) error {
	e := &SyntaxError{Line: 1, Column: 1, Message: message}
	for ; e.Line < where.Line(); e.Line++ {
		end := strings.IndexByte(source[e.Offset:], '\n')
		if end < 0 {
			break
		}
		e.Offset += end + 1
	}
	for ; e.Column <= where.Column() && e.Offset < len(source); e.Column++ {
		_, n := utf8.DecodeRuneInString(source[e.Offset:])
		e.Offset += n
	}
	return e
}

// A walker finds in a parsed expression what needs no data to be wrong.
type walker struct {
	source string
	names  []string
	env    *cel.Env
	tree   *ast.AST
	locals []string // the variables of the macros around the expression
	nodes  uint64   // seen up to now, in the innermost loop
	turns  map[int64]uint64
	err    error
}

// refuse keeps the first error.
func (w *walker) refuse(e ast.Expr, format string, args ...any) {
	if w.err == nil {
		w.err = at(w.source, w.tree.SourceInfo().GetStartLocation(e.ID()), fmt.Sprintf(format, args...))
	}
}

func (w *walker) expr(e ast.Expr) {
	w.nodes++
	switch e.Kind() {
	case ast.IdentKind:
		w.ident(e)
	case ast.SelectKind:
		w.expr(e.AsSelect().Operand())
	case ast.CallKind:
		w.call(e)
	case ast.ListKind:
		for _, item := range e.AsList().Elements() {
			w.expr(item)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			w.expr(entry.AsMapEntry().Key())
			w.expr(entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		w.refuse(e, "there are no messages: %s{} can't be made", e.AsStruct().TypeName())
	case ast.ComprehensionKind:
		w.loop(e.AsComprehension())
	}
}

// loop walks through a macro. One turn of it costs as much as there are nodes in its body, less
// those of the loops in it, which cost by themselves.
func (w *walker) loop(c ast.ComprehensionExpr) {
	w.expr(c.IterRange())
	names, nodes := len(w.locals), w.nodes
	w.locals, w.nodes = append(w.locals, c.AccuVar(), c.IterVar()), 0
	for _, e := range []ast.Expr{c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()} {
		w.expr(e)
	}
	w.turns[c.IterRange().ID()] = w.nodes
	w.locals, w.nodes = w.locals[:names], nodes
}

// ident tells the interpreter that a name is a variable. Otherwise it would look for one of the
// name "a.b" before it looks for the field b of a.
func (w *walker) ident(e ast.Expr) {
	ident := e.AsIdent()
	name := strings.TrimPrefix(ident, ".")
	switch {
	case ident == name && slices.Contains(w.locals, name):
	case w.names == nil || slices.Contains(w.names, name):
		w.tree.SetReference(e.ID(), ast.NewIdentReference(ident, nil))
	default:
		if _, ok := w.env.CELTypeProvider().FindIdent(name); !ok {
			w.refuse(e, "there is no variable %s", name)
		}
	}
}

func (w *walker) call(e ast.Expr) {
	call := e.AsCall()
	name, args := call.FunctionName(), call.Args()
	if call.IsMemberFunction() {
		args = append([]ast.Expr{call.Target()}, args...)
	}
	if !w.known(name, call.IsMemberFunction(), len(args)) {
		w.unknown(e, name)
	}
	for _, arg := range args {
		w.expr(arg)
	}
	if name == overloads.Matches && len(args) == 2 && args[1].Kind() == ast.LiteralKind {
		if pattern, ok := args[1].AsLiteral().(types.String); ok {
			if _, _, err := compilePattern(string(pattern)); err != nil {
				w.refuse(args[1], "%v", err)
			}
		}
	}
}

// known says whether a function takes so many arguments.
func (w *walker) known(name string, member bool, args int) bool {
	switch name {
	case operators.LogicalAnd, operators.LogicalOr: // of two or more
		return true
	}
	f, ok := w.env.Functions()[name]
	return ok && slices.ContainsFunc(f.OverloadDecls(), func(o *decls.OverloadDecl) bool {
		return o.IsMemberFunction() == member && len(o.ArgTypes()) == args
	})
}

func (w *walker) unknown(e ast.Expr, name string) {
	if f, ok := w.env.Functions()[name]; ok && len(f.OverloadDecls()) > 0 {
		w.refuse(e, "the function %s isn't called like this", name)
		return
	}
	w.refuse(e, "there is no function %s", name)
}
