package filter

import (
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
)

// maxPattern is how many instructions a compiled regular expression may have.
const maxPattern = 2000

// matchPerStep is how many times an instruction of a regular expression looks at a byte for one
// step.
const matchPerStep = 16

// A matcher matches regular expressions, one of them or each that it meets.
type matcher struct {
	re   *regexp.Regexp // nil if it isn't the same each time
	size int
}

func newMatcher(pattern interpreter.InterpretableV2) *matcher {
	m := &matcher{}
	if c, ok := pattern.(interpreter.InterpretableConst); ok {
		if pattern, ok := c.Value().(types.String); ok {
			m.re, m.size, _ = compilePattern(string(pattern)) // the walker has seen that it compiles
		}
	}
	return m
}

// match implements CEL's matches. Each instruction of the expression may look at each byte.
func (m *matcher) match(c *counter, text, pattern ref.Val) ref.Val {
	s, ok := text.(types.String)
	expr, isText := pattern.(types.String)
	if !ok || !isText {
		return types.NewErr("no such overload: %s.matches(%s)", text.Type().TypeName(), pattern.Type().TypeName())
	}
	re, size := m.re, m.size
	if re == nil {
		c.spend(1 + uint64(len(expr)))
		var err error
		if re, size, err = compilePattern(string(expr)); err != nil {
			return types.WrapErr(err)
		}
	}
	c.spend(1 + uint64(len(s))*uint64(size)/matchPerStep)
	return types.Bool(re.MatchString(string(s)))
}

// compilePattern returns a regular expression and how many instructions it has.
func compilePattern(pattern string) (*regexp.Regexp, int, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, 0, err
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, 0, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, 0, err
	}
	if n := len(program.Inst); n <= maxPattern {
		return re, n, nil
	}
	return nil, 0, fmt.Errorf("the regular expression has %d instructions, at most %d are allowed", len(program.Inst), maxPattern)
}
