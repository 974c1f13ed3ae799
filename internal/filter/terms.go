package filter

import (
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/parser"
)

// A Term is one of the expressions that && joins at the top of a Program, which is true exactly
// where each of its terms is.
type Term struct {
	// Source is the canonical text of the term, as of Program.Canonical. It is empty if the text
	// alone doesn't say what the term means, because it names a bound variable.
	Source string
	// Subject is the canonical text of what Op compares or searches. It is empty, and so are Op
	// and Value, if the term has another form, or if the text would name a bound variable.
	Subject string
	// Op is "==", "contains", "startsWith", "endsWith" or "matches".
	Op string
	// Value is the other side, in a type of Eval's results; of all but "==" a string. A number
	// equals the same number of another type, as in expressions.
	Value any
}

// Terms returns the terms in the order of the source. A variable that bound knows is a parameter:
// it is taken as if its value were written in its place. bound holds nothing but parameters, may
// be nil, and is not kept.
func (p *Program) Terms(bound Vars) []Term {
	return p.split(p.tree().Expr(), bound, nil)
}

// Canonical returns the source in one of its spellings. Expressions have the same if they differ
// in spaces, comments, quotes and needless parentheses only. An expression whose parentheses
// would get lost, such as !(!a), keeps its spelling.
func (p *Program) Canonical() string {
	if text := p.text(p.tree().Expr(), nil); text != "" {
		return text
	}
	return p.source
}

// parsed returns the tree of a source that has been compiled, so that there are no errors.
func parsed(source string) *ast.AST {
	env, _ := environment()
	tree, _ := env.Parse(source)
	return tree.NativeRep()
}

// split appends the terms of an expression.
func (p *Program) split(e ast.Expr, bound Vars, terms []Term) []Term {
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalAnd {
		for _, arg := range e.AsCall().Args() {
			terms = p.split(arg, bound, terms)
		}
		return terms
	}
	t := Term{Source: p.text(e, bound)}
	if e.Kind() == ast.CallKind {
		p.compare(&t, e.AsCall(), bound)
	}
	return append(terms, t)
}

// compare describes a call that is a comparison with a constant.
func (p *Program) compare(t *Term, call ast.CallExpr, bound Vars) {
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]ast.Expr{call.Target()}, args...)
	}
	op, subject, value, ok := call.FunctionName(), 0, any(nil), false
	switch op {
	case operators.Equals:
		op = "=="
		if value, ok = constant(args[1], bound); !ok {
			subject = 1
			value, ok = constant(args[0], bound)
		}
	case overloads.Contains, overloads.StartsWith, overloads.EndsWith, overloads.Matches:
		value, _ = constant(args[1], bound)
		_, ok = value.(string)
	}
	if !ok {
		return
	}
	if text := p.text(args[subject], bound); text != "" {
		t.Subject, t.Op, t.Value = text, op, value
	}
}

// constant returns the value of a literal or of a bound variable, and false for anything else.
func constant(e ast.Expr, bound Vars) (any, bool) {
	var v ref.Val
	if value, ok := lookup(e, bound); ok {
		v = adapter{}.NativeToValue(value)
	} else if e.Kind() == ast.LiteralKind {
		v = e.AsLiteral()
	} else {
		return nil, false
	}
	left := uint64(defaultCost)
	value, err := toGo(v, &left)
	return value, err == nil
}

// lookup returns the value of a bound variable.
func lookup(e ast.Expr, bound Vars) (any, bool) {
	if bound == nil || e.Kind() != ast.IdentKind {
		return nil, false
	}
	return bound.Lookup(strings.TrimPrefix(e.AsIdent(), "."))
}

// text returns the canonical text of an expression. It is empty if the expression names a bound
// variable, and if it is one of those whose parentheses the unparser forgets: (-a).b, !(!a), -(1).
func (p *Program) text(e ast.Expr, bound Vars) string {
	ok := true
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		_, isBound := lookup(e, bound)
		ok = ok && !isBound
		switch e.Kind() {
		case ast.SelectKind:
			ok = ok && !signed(e.AsSelect().Operand())
		case ast.ComprehensionKind:
			ok = ok && !signed(e.AsComprehension().IterRange())
		case ast.CallKind:
			switch e.AsCall().FunctionName() {
			case operators.Index, operators.Negate, operators.LogicalNot:
				ok = ok && !signed(e.AsCall().Args()[0])
			}
			ok = ok && !signed(e.AsCall().Target())
		}
	}))
	text, err := parser.Unparse(e, p.tree().SourceInfo(), parser.WrapOnOperators())
	if !ok || err != nil {
		return ""
	}
	return text
}

// signed says whether the text of an expression may begin with a - or ! that belongs to all of it,
// or be joined by one.
func signed(e ast.Expr) bool {
	switch e.Kind() {
	case ast.CallKind:
		return e.AsCall().FunctionName() == operators.Negate || e.AsCall().FunctionName() == operators.LogicalNot
	case ast.LiteralKind:
		return e.AsLiteral().Type() == types.IntType || e.AsLiteral().Type() == types.DoubleType
	}
	return false
}
