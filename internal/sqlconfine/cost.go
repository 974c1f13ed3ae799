package sqlconfine

import (
	"strconv"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// SQLite makes a program of a statement. It looks at the time where that jumps back, but
// not after each operation that takes time in proportion to its values. So there may be
// only so many of those that they take about a second together with the largest values.
//
// https://sqlite.org/opcode.html

// MaxCost bounds what a program may cost, where 1 is to copy a value, which takes up to
// half a millisecond for a megabyte, 8 to compare one, and 16 to make a number of one.
const MaxCost = 2000

// smallProgram is the size in bytes of programs that aren't looked at. An operation has 24
// bytes; simple statements take two to six KiB.
const smallProgram = 8 << 10

// anyArgs is how many arguments a function is taken to have that may have any number:
// EXPLAIN doesn't tell.
const anyArgs = 5

// costs are those of operations that aren't 1.
var costs = func() map[string]int {
	all := map[string]int{}
	for cost, ops := range map[int]string{
		0: `BeginSubrtn Close Copy EndCoroutine Explain Gosub Goto Halt Init InitCoroutine Int64 Integer Move Next Noop Null Once Real
			ResultRow Return Rewind SCopy String String8 Trace Transaction Variable Yield`,
		8: `AggFinal AggStep AggStep1 AggValue And BitNot Cast Compare ElseEq Eq Function Ge Gt If IfNot IsTrue Le Lt MustBeInt Ne Not
			Or PureFunc`,
		16: `Add BitAnd BitOr Divide Multiply Remainder ShiftLeft ShiftRight Subtract`,
	} {
		for op := range strings.FieldsSeq(ops) {
			all[op] = cost
		}
	}
	return all
}()

// costOf returns what an operation costs; function is what EXPLAIN calls p4.
func costOf(op, function string) int {
	cost, known := costs[op]
	if !known {
		return 1
	}
	if op != "Function" && op != "PureFunc" {
		return cost
	}
	name, rest, _ := strings.Cut(function, "(")
	args, err := strconv.Atoi(strings.TrimSuffix(rest, ")"))
	if err != nil || args < 1 {
		args = anyArgs
	}
	if strings.HasPrefix(name, "json") || strings.HasPrefix(name, "->") {
		args = max(args, 2) * 3 // a document is parsed, and looked through for each
	}
	return cost * args
}

// A Tally is what a program costs, as its operations are read.
type Tally struct {
	cost int // since the last of VALUES was passed on
	most int // before that, up to another one
	far  int // to where the operations since then may jump
}

// Small reports whether s has a program that isn't worth a Tally.
func Small(s *sqlite3.Stmt) bool { return s.Status(sqlite3.STMTSTATUS_MEMUSED, false) <= smallProgram }

// Add adds an operation, in the order of EXPLAIN, whose columns addr, p2, opcode and p4 the arguments are.
func (t *Tally) Add(addr, p2 int, op, p4 string) {
	// p2 is where it jumps to, if it does. A row of VALUES is passed on by Yield to a loop, which looks at the time; but some operation may jump
	// beyond that.
	t.cost += costOf(op, p4)
	switch {
	case op == "Init" || op == "InitCoroutine": // jumps before there is anything to do
	case op != "Yield":
		t.far = max(t.far, p2)
	case t.far <= addr:
		t.most, t.cost = max(t.most, t.cost), 0
	}
}

// Cost returns what the program costs.
func (t *Tally) Cost() int { return t.most + t.cost }
