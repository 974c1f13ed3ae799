package lint

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// methodsOf is a file with so many methods of T, numbered from first.
func methodsOf(first, n int) string {
	var b strings.Builder
	b.WriteString("package vfs\n")
	for i := range n {
		fmt.Fprintf(&b, "func (t *T) m%d() {}\n", first+i)
	}
	return b.String()
}

// circle is a package whose files form two circles, a with b and b with d. Only c is used and uses nothing.
var circle = map[string]string{
	"vfs/a.go": "package vfs\ntype A struct { b *B; c C }\nfunc (a *A) do() { a.b.do() }\n",
	"vfs/b.go": "package vfs\ntype B struct { a *A; c C }\nfunc (b *B) do() { b.a.do(); second() }\n",
	"vfs/c.go": "package vfs\ntype C int\n",
	"vfs/d.go": "package vfs\nfunc second() { var b B; b.do() }\n",
}

// with returns files with some more.
func with(files map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	for name, text := range files {
		all[name] = text
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// list is the beginning of a file that lists the files of its package.
func list(files string) string {
	return "package vfs\n\n// Files, from the top down:\n//\n//\t" + files + "\n\n"
}

// manyFiles is a package of n files.
func manyFiles(n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("vfs/f%d.go", i)] = "package vfs\n"
	}
	return files
}

// beside is a package with so many references between its files. up of them run up in the order of its list: the files
// in the middle use the lowest, and some are used by it.
func beside(total, up int) map[string]string {
	files, names, calls := map[string]string{}, "", ""
	for i := range total - up {
		files[fmt.Sprintf("vfs/f%d.go", i)] = fmt.Sprintf("package vfs\nfunc f%d() { low() }\n", i)
		names += fmt.Sprintf("f%d.go ", i)
		if i < up {
			calls += fmt.Sprintf("f%d(); ", i)
		}
	}
	files["vfs/low.go"] = list(names+"low.go") + "func low() { " + calls + "}\n"
	return files
}

var ratchetCases = []ruleCase{
	{"at the limit", "methods", map[string]string{
		"vfs/a.go":      "package vfs\ntype T struct{}\n" + methodsOf(0, 28)[len("package vfs\n"):],
		"vfs/b.go":      methodsOf(28, 1),
		"vfs/c.go":      methodsOf(29, 1),
		"vfs/c_arm.go":  methodsOf(29, 1)[:len("package vfs\n")], // another platform's has the same methods
		"vfs/a_test.go": methodsOf(30, 10),
		"queue/a.go":    "package queue\ntype T struct{}\nfunc (T) m30() {}\n",
	}, nil},
	{"one more", "methods", map[string]string{
		"vfs/a.go": methodsOf(0, 31),
	}, []string{"vfs/a.go:2: T has 31 methods in 1 files"}},
	{"in one file more", "methods", map[string]string{
		"vfs/a.go": methodsOf(0, 1),
		"vfs/b.go": methodsOf(1, 1),
		"vfs/c.go": methodsOf(2, 1),
		"vfs/d.go": "package vfs\nfunc (t T[K, V]) m3() {}\n",
	}, []string{"vfs/a.go:2: T has 4 methods in 4 files"}},
	{"functions", "methods", map[string]string{
		"vfs/a.go": methodsOf(0, 28) + "type T struct{}\ntype U int\nfunc f(t, u *T) {}\nfunc m0(ctx context.Context, t *T) {}\n",
		"vfs/b.go": "package vfs\nfunc g(ctx context.Context, t *T, n int) *U\n",
		"vfs/c.go": "package vfs\nfunc h(t T) {}\nfunc i(n int, t *T) {}\nfunc j(u *U) {}\nfunc k(t *other.T) {}\nfunc l() {}\nfunc m(context.Context) {}\n",
	}, []string{"vfs/a.go:2: T has 31 methods in 2 files"}},
	{"functions in one file more", "methods", map[string]string{
		"vfs/a.go": "package vfs\ntype T struct{}\nfunc a(*T) {}\n",
		"vfs/b.go": "package vfs\nfunc b(*T) {}\n",
		"vfs/c.go": "package vfs\nfunc c(*T) {}\n",
		"vfs/d.go": "package vfs\nfunc d(*T) error\n",
	}, []string{"vfs/a.go:3: T has 4 methods in 4 files"}},
	{"functions with type parameters", "methods", map[string]string{
		"vfs/a.go": methodsOf(0, 30) + "type T struct{}\nfunc f[K any](t *T, k K) {}\n",
	}, nil},
	{"constructors", "methods", map[string]string{
		"vfs/a.go": methodsOf(0, 30) + "type T struct{}\nfunc f(t *T) (*T, error)\nfunc g(ctx context.Context, t *T) (n int, u T)\n",
	}, nil},
	{"functions in a table", "methods", map[string]string{
		"vfs/a.go": methodsOf(0, 30) + "type T struct{}\nfunc f(t *T) {}\nfunc g(t *T) {}\nfunc h(t *T) {}\nfunc i(t *T) {}\n",
		"vfs/b.go": "package vfs\nvar list, byName = []func(*T){f}, map[string]func(*T){\"g\": g}\nfunc init() { byName[\"h\"] = h; x.field, y = i, z }\n",
	}, nil},
	{"functions that are called in a table", "methods", map[string]string{
		"vfs/a.go":      methodsOf(0, 30) + "type T struct{}\nfunc f(t *T) {}\n",
		"vfs/b.go":      "package vfs\nvar list = []int{f(nil)}\n",
		"vfs/b_test.go": "package vfs\nvar cases = []func(*T){f}\n",
	}, []string{"vfs/a.go:2: T has 31 methods in 1 files"}},
	{"excepted", "methods", map[string]string{
		"vfs/a.go":     methodsOf(0, 31),
		exceptionsPage: "# A comment.\n\nmethods vfs.T 31 1\n",
	}, nil},
	{"got worse", "methods", map[string]string{
		"vfs/a.go":     methodsOf(0, 32),
		"queue/a.go":   methodsOf(0, 31),
		"queue/b.go":   methodsOf(31, 1),
		exceptionsPage: "methods vfs.T 31 1\nmethods queue.T 33 1\n",
	}, []string{"queue/a.go:2: T has 32 methods in 2 files ([33 1] are excepted)", "vfs/a.go:2: T has 32 methods in 1 files ([31 1] are excepted)"}},
	{"got better", "methods", map[string]string{
		"vfs/a.go":     methodsOf(0, 31),
		"queue/a.go":   methodsOf(0, 30),
		exceptionsPage: "methods vfs.T 32 1\nmethods queue.T 31 1\nmethods conn.T 31 1\n",
	}, []string{exceptionsPage + ":1: vfs.T got better", exceptionsPage + ":2: queue.T needs no exception", exceptionsPage + ":3: conn.T isn't there"}},
	{"not an exception", "methods", map[string]string{
		exceptionsPage: "methods vfs.T\nmethods vfs.T many\nlength vfs/a.go 700\n",
	}, []string{exceptionsPage + ":1: lint: ", exceptionsPage + ":2: strconv.Atoi", exceptionsPage + ":3: lint: no rule length"}},
	{"too few numbers", "methods", map[string]string{
		"vfs/a.go":     methodsOf(0, 31),
		exceptionsPage: "methods vfs.T 31\n",
	}, []string{exceptionsPage + ":1: vfs.T has 2 numbers, not 1"}},

	{"no circle", "upward", map[string]string{
		"vfs/a.go":          "package vfs\nfunc a() { b(); var t T; t.m() }\n",
		"vfs/b.go":          "package vfs\nfunc b() { c() }\n",
		"vfs/c.go":          "package vfs\nfunc c() {}\ntype T struct{}\nfunc (T) m() {}\n",
		"vfs/c_windows.go":  "package vfs\nfunc c() { a() }\n",
		"vfs/a_test.go":     "package vfs\nfunc test() { a(); nothing() }\n",
		"test/suite/go.mod": "module example.com/house/test/suite",
		"test/suite/a.go":   "package suite\nfunc a() { b() }\n",
		"test/suite/b.go":   "package suite\nfunc b() { nothing() }\n",
	}, nil},
	{"one circle", "upward", map[string]string{
		"vfs/a.go": "package vfs\nfunc a() { b() }\n",
		"vfs/b.go": "package vfs\nfunc b() { a(); b() }\n",
	}, nil},
	{"circles", "upward", circle, []string{"vfs: 2 of 6 references between files run up: "}},
	{"excepted", "upward", with(circle, exceptionsPage, "upward vfs 2\n"), nil},
	{"got worse", "upward", with(circle, exceptionsPage, "upward vfs 1\n"), []string{"vfs: 2 of 6 references between files run up ([1] are excepted): "}},
	{"got better", "upward", with(circle, exceptionsPage, "upward vfs 3\n"), []string{exceptionsPage + ":1: vfs got better"}},
	{"in the listed order", "upward", with(circle,
		"vfs/doc.go", "package vfs\n\n// Files, from the top down:\n//\n//\td.go b.go a.go\n//\tc.go doc.go\n",
	), []string{"vfs: 2 of 6 references between files run up: a.go uses b.go, b.go uses d.go"}},
	{"in a listed order that is not the best", "upward", map[string]string{
		"vfs/a.go": list("c.go b.go a.go") + "func a() { b(); c() }\n",
		"vfs/b.go": "package vfs\nfunc b() { c() }\n",
		"vfs/c.go": "package vfs\nfunc c() {}\n",
	}, []string{"vfs: 3 of 3 references between files run up: a.go uses b.go, a.go uses c.go, b.go uses c.go"}},
	{"at the limit", "upward", beside(20, 2), nil},
	{"over the limit", "upward", beside(19, 2), []string{"vfs: 2 of 19 references"}},
	{"over the limit and excepted", "upward", with(beside(19, 3), exceptionsPage, "upward vfs 3\n"), nil},
	{"over the limit and worse", "upward", with(beside(19, 3), exceptionsPage, "upward vfs 2\n"),
		[]string{"vfs: 3 of 19 references between files run up ([2] are excepted): "}},
	{"over the limit and better", "upward", with(beside(19, 2), exceptionsPage, "upward vfs 3\n"),
		[]string{exceptionsPage + ":1: vfs got better"}},
	{"within it at last", "upward", with(beside(20, 2), exceptionsPage, "upward vfs 3\n"),
		[]string{exceptionsPage + ":1: vfs needs no exception"}},

	{"few files", "order", with(manyFiles(10), "vfs/a_test.go", "package vfs\n"), nil},
	{"many files", "order", manyFiles(11), []string{"vfs: 11 files, and no comment with a line"}},
	{"many files of another module", "order", with(manyFiles(11), "vfs/go.mod", "module example.com/vfs\n"), nil},
	{"listed", "order", with(manyFiles(10), "vfs/a_test.go", "package vfs\n",
		"vfs/doc.go", list("f3.go f0.go f1.go f2.go doc.go\n//\tf4.go f5.go f6.go f7.go f8.go f9.go\n//\n// The end.")), nil},
	{"listed wrongly", "order", map[string]string{
		"vfs/a.go":   list("b.go a.go b.go gone.go"),
		"vfs/b.go":   "package vfs\n",
		"vfs/c.go":   "package vfs\n",
		"queue/a.go": list("a.go"),
		"queue/b.go": "package queue\n\n// Files, from the top down:\n//\n//\tb.go a.go\n",
	}, []string{"queue/b.go: second list", "vfs/a.go: the list of files has twice b.go",
		"vfs/a.go: the list of files has, and the package has not gone.go", "vfs/a.go: the list of files lacks c.go"}},
	{"excepted", "order", with(manyFiles(11), exceptionsPage, "order vfs 11\n"), nil},
	{"got worse", "order", with(manyFiles(12), exceptionsPage, "order vfs 11\n"), []string{"vfs: 12 files"}},
	{"got better", "order", with(manyFiles(11), exceptionsPage, "order vfs 12\n"), []string{exceptionsPage + ":1: vfs got better"}},
	{"listed at last", "order", with(manyFiles(1), "vfs/f0.go", list("f0.go"), exceptionsPage, "order vfs 12\n"),
		[]string{exceptionsPage + ":1: vfs isn't there any more"}},
	{"by a field alone", "upward", with(circle, "vfs/c.go", "package vfs\ntype C struct { a *A }\nfunc (c C) x() { c.a.b.c = c }\n"),
		[]string{"vfs: 4 of 8 references"}},
	{"plain", "prose", map[string]string{"vfs/a.go": "// Package vfs has been read.\npackage vfs\nvar who = 1\n", "docs/a.md": "It was written.\n"}, nil},
	{"pronouns", "prose", map[string]string{
		"vfs/a.go":  "// Package vfs has a file\n// written by whoever asks.\npackage vfs\n",
		"docs/a.md": "There is none.\n", "docs/b.md": "Nobody.\n", exceptionsPage: "prose docs/b.md 1\n",
	}, []string{"docs/a.md: the prose has 1 of", "vfs: the prose has 2 of"}},
	{"a name that isn't there", "upward", map[string]string{
		"vfs/a.go": "package vfs\nfunc a() { b() }\n",
		"vfs/b.go": "package vfs\n",
	}, []string{"vfs: doesn't type-check: vfs/a.go:2:12: undefined: b"}},
}

// TestOrder compares the order that is found with the best of all orders, for packages small enough to try all.
func TestOrder(t *testing.T) {
	const files = 7
	for seed := range uint64(40) {
		r := randomRefs(files, seed)
		fewest := r.total()
		for order := range permutations(files) {
			fewest = min(fewest, len(r.ups(order)))
		}
		order := r.order()
		if got := len(r.ups(order)); got != fewest {
			t.Errorf("seed %d: %d references run up in %v, and %d in the best order", seed, got, order, fewest)
		}
		if !slices.Equal(order, r.order()) {
			t.Errorf("seed %d: another order the second time", seed)
		}
		slices.Sort(order)
		if !slices.Equal(order, []int{0, 1, 2, 3, 4, 5, 6}) {
			t.Errorf("seed %d: the order is of %v", seed, order)
		}
	}
}

func randomRefs(files int, seed uint64) refs {
	random := rand.New(rand.NewPCG(seed, 0))
	r := make(refs, files)
	for a := range r {
		r[a] = make([]bool, files)
		for b := range r[a] {
			r[a][b] = a != b && random.IntN(2) == 0
		}
	}
	return r
}

// permutations yields every order of the numbers below n. The slice is the caller's until the next.
func permutations(n int) iter.Seq[[]int] {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	var swap func(k int, yield func([]int) bool) bool
	swap = func(k int, yield func([]int) bool) bool {
		if k == n {
			return yield(order)
		}
		for i := k; i < n; i++ {
			order[k], order[i] = order[i], order[k]
			if !swap(k+1, yield) {
				return false
			}
			order[k], order[i] = order[i], order[k]
		}
		return true
	}
	return func(yield func([]int) bool) { swap(0, yield) }
}

func TestRenderExceptions(t *testing.T) {
	tree := fake(t, with(circle,
		"queue/a.go", methodsOf(0, 31)+"type T int\n",
		"conn/a.go", methodsOf(0, 33),
		"conn/b.go", methodsOf(33, 1)+"type T int\n",
		exceptionsPage, "# What is excepted.\n\nmethods conn.T 40 1\nmethods host.T 40 1\nmethods queue.T 30 1\nupward vfs 5\n"))
	got, err := renderExceptions(tree)
	if want := "# What is excepted.\n\nmethods conn.T 34 1\nmethods queue.T 30 1\nupward vfs 2\n"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, bad := range []map[string]string{{exceptionsPage: "methods\n"}, {"vfs/a.go": "package vfs\nvar a = b\n", "vfs/b.go": "package vfs\n"}} {
		if got, err := renderExceptions(fake(t, bad)); err == nil {
			t.Errorf("of %v: got %q", bad, got)
		}
	}
}
