package docstore_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/greenroomdb/greenroom/docstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
	"github.com/greenroomdb/greenroom/kv/txn"
)

type props = docstore.Properties

func TestPaths(t *testing.T) {
	ctx := t.Context()
	long := strings.Repeat("n", 1000)
	for _, c := range []struct {
		path docstore.Path
		err  error
	}{
		{docstore.Join("a:b"), nil},
		{docstore.Join("~"), nil},
		{docstore.Join("a/b"), nil},
		{docstore.Join(`a\b`), nil},
		{docstore.Join("a\x00b"), nil},
		{docstore.Join("日本", "é", "😀"), docstore.ErrNotFound},
		{docstore.Join("日本"), nil},
		{docstore.Join("."), nil},
		{docstore.Join(long), nil},
		{docstore.Join(long + long + "n"), docstore.ErrTooLarge},
		{docstore.Join(strings.Repeat(":", 700)), docstore.ErrTooLarge}, // three bytes each
		{docstore.Join(strings.Repeat("n", 9000)), docstore.ErrTooLarge},
		{"", docstore.ErrPath},
		{"a", docstore.ErrPath},
		{"/a/", docstore.ErrPath},
		{"//a", docstore.ErrPath},
		{"/a//b", docstore.ErrPath},
		{docstore.Join("a", ""), docstore.ErrPath},
		{"/a\xff", docstore.ErrPath},
		{`/a\b`, docstore.ErrPath},
		{"/a\x00", docstore.ErrPath},
		{"/~", docstore.ErrPath},
		{"/~7E", docstore.ErrPath},
		{"/~3a", docstore.ErrPath},
		{"/~i30", docstore.ErrPath}, // a group
		{"/", docstore.ErrExists},
	} {
		s := open(t, nil)
		err := s.Update(ctx, func(tx *docstore.Tx) error { return tx.Create(ctx, c.path, "T", nil) })
		if !errors.Is(err, c.err) {
			t.Errorf("%.40q is created with %v, want %v", c.path, err, c.err)
		}
		var known *docstore.Error
		if err != nil && (!errors.As(err, &known) || known.Path != c.path || known.Op != "create") {
			t.Errorf("%.40q: the error is %+v", c.path, err)
		}
		if err != nil {
			continue
		}
		must(t, s.View(ctx, func(tx *docstore.Tx) error {
			if got := list(t, tx.Members(ctx, "/")); len(got) != 1 || got[0] != c.path {
				t.Errorf("%.40q is listed as %q", c.path, got)
			}
			return nil
		}))
		checked(t, s)
		if got := docstore.Join(c.path.Names()...); got != c.path {
			t.Errorf("the names of %.40q make %.40q", c.path, got)
		}
	}
	p := docstore.Join("a", "b/c", "d")
	sibling, err := p.Sibling("e/f")
	must(t, err)
	up, err := p.Ancestor(2)
	must(t, err)
	if p.Name() != "d" || p.Parent().Name() != "b/c" || p.Depth() != 3 || sibling != "/a/b~2fc/e~2ff" || up != "/a" || !up.IsAncestorOf(p) || up.IsAncestorOf("/ab") || up.IsAncestorOf(up) || !docstore.Root.IsAncestorOf(up) {
		t.Errorf("%q: %q, %q, %d, %q, %q", p, p.Name(), p.Parent(), p.Depth(), sibling, up)
	}
	if _, err := docstore.Root.Sibling("a"); !errors.Is(err, docstore.ErrPath) {
		t.Errorf("a sibling of the root is %v", err)
	}
	if _, err := p.Ancestor(4); !errors.Is(err, docstore.ErrPath) {
		t.Errorf("an ancestor of the root is %v", err)
	}
}

// TestOperations: each operation on each kind of entity.
func TestOperations(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateContainer(ctx, "/c"), tx.Create(ctx, "/c/d", "T", props{"n": 1, "s": "text"}), tx.CreateCategory(ctx, "/cat", "T", "n == 1"),
			tx.CreateCatalogue(ctx, "/catl", "T", "n"), tx.CreateIndex(ctx, "/idx", "T", "s"))
	})
	drain := func(seq docstore.Paths) (err error) {
		for _, err = range seq {
		}
		return err
	}
	for name, c := range map[string]struct {
		do  func(tx *docstore.Tx) error
		err error
	}{
		"create twice":             {func(tx *docstore.Tx) error { return tx.Create(ctx, "/c/d", "T", nil) }, docstore.ErrExists},
		"create in a document":     {func(tx *docstore.Tx) error { return tx.Create(ctx, "/c/d/e", "T", nil) }, docstore.ErrOperation},
		"create in a category":     {func(tx *docstore.Tx) error { return tx.CreateContainer(ctx, "/cat/e") }, docstore.ErrOperation},
		"create in a group":        {func(tx *docstore.Tx) error { return tx.Create(ctx, "/catl/1/e", "T", nil) }, docstore.ErrNotFound},
		"create in nothing":        {func(tx *docstore.Tx) error { return tx.Create(ctx, "/x/e", "T", nil) }, docstore.ErrNotFound},
		"no label":                 {func(tx *docstore.Tx) error { return tx.Create(ctx, "/e", "", nil) }, docstore.ErrValue},
		"long label":               {func(tx *docstore.Tx) error { return tx.Create(ctx, "/e", strings.Repeat("l", 201), nil) }, docstore.ErrTooLarge},
		"bad label":                {func(tx *docstore.Tx) error { return tx.Create(ctx, "/e", "\xff", nil) }, docstore.ErrValue},
		"bad value":                {func(tx *docstore.Tx) error { return tx.Create(ctx, "/e", "T", props{"x": make(chan int)}) }, docstore.ErrValue},
		"large document":           {func(tx *docstore.Tx) error { return tx.Create(ctx, "/e", "T", props{"x": make([]byte, 1<<20)}) }, docstore.ErrTooLarge},
		"bad expression":           {func(tx *docstore.Tx) error { return tx.CreateCategory(ctx, "/e", "T", "a ==") }, docstore.ErrExpression},
		"properties of a category": {func(tx *docstore.Tx) error { _, err := tx.Properties(ctx, "/cat"); return err }, docstore.ErrOperation},
		"property of a container":  {func(tx *docstore.Tx) error { return tx.SetProperty(ctx, "/c", "a", 1) }, docstore.ErrOperation},
		"label of a container":     {func(tx *docstore.Tx) error { return tx.SetLabel(ctx, "/c", "U") }, docstore.ErrOperation},
		"get nothing":              {func(tx *docstore.Tx) error { _, err := tx.Entity(ctx, "/x"); return err }, docstore.ErrNotFound},
		"get below a document":     {func(tx *docstore.Tx) error { _, err := tx.Entity(ctx, "/c/d/x"); return err }, docstore.ErrNotFound},
		"get below a member":       {func(tx *docstore.Tx) error { _, err := tx.Entity(ctx, "/cat/d/x"); return err }, docstore.ErrNotFound},
		"get a missing member":     {func(tx *docstore.Tx) error { _, err := tx.Entity(ctx, "/cat/x"); return err }, docstore.ErrNotFound},
		"get a missing group":      {func(tx *docstore.Tx) error { _, err := tx.Entity(ctx, "/catl/2"); return err }, docstore.ErrNotFound},
		"get a missing match":      {func(tx *docstore.Tx) error { _, err := tx.Entity(ctx, "/idx/*ex*/x"); return err }, docstore.ErrNotFound},
		"get a match":              {func(tx *docstore.Tx) error { _, err := tx.Properties(ctx, "/idx/*ex*/d"); return err }, nil},
		"list a document":          {func(tx *docstore.Tx) error { return drain(tx.Members(ctx, "/c/d")) }, docstore.ErrOperation},
		"list nothing":             {func(tx *docstore.Tx) error { return drain(tx.Members(ctx, "/x")) }, docstore.ErrNotFound},
		"list an index":            {func(tx *docstore.Tx) error { return drain(tx.Members(ctx, "/idx")) }, nil},
		"delete with children":     {func(tx *docstore.Tx) error { return tx.Delete(ctx, "/c", false) }, docstore.ErrNotEmpty},
		"delete the root":          {func(tx *docstore.Tx) error { return tx.Delete(ctx, "/", true) }, docstore.ErrOperation},
		"delete a virtual path":    {func(tx *docstore.Tx) error { return tx.Delete(ctx, "/cat/d", false) }, docstore.ErrNotFound},
		"move into itself":         {func(tx *docstore.Tx) error { return tx.Move(ctx, "/c", "/c/x") }, docstore.ErrOperation},
		"move onto another":        {func(tx *docstore.Tx) error { return tx.Move(ctx, "/c/d", "/cat") }, docstore.ErrExists},
		"search a category":        {func(tx *docstore.Tx) error { _, err := tx.Search(ctx, "/cat", "*", nil); return err }, docstore.ErrOperation},
		"bad regular expression": {func(tx *docstore.Tx) error {
			_, err := tx.Search(ctx, "/idx", "(", &docstore.SearchOptions{Regexp: true})
			return err
		}, docstore.ErrExpression},
		"bad query": {func(tx *docstore.Tx) error { _, err := tx.Explain(ctx, "T", "a ==", nil); return err }, docstore.ErrExpression},
	} {
		stop := errors.New("stop")
		err := s.Update(ctx, func(tx *docstore.Tx) error {
			if err := c.do(tx); err != nil {
				return err
			}
			return stop
		})
		if c.err == nil {
			c.err = stop
		}
		if !errors.Is(err, c.err) {
			t.Errorf("%s: got %v, want %v", name, err, c.err)
		}
	}
	if err := s.View(ctx, func(tx *docstore.Tx) error { return tx.Delete(ctx, "/c/d", false) }); !errors.Is(err, txn.ErrReadOnly) {
		t.Errorf("a change in a view is %v", err)
	}
}

// TestNames: a virtual path names a member by its last name if that is enough, and else by its whole path.
func TestNames(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateContainer(ctx, "/a"), tx.CreateContainer(ctx, "/b"), tx.CreateCategory(ctx, "/all", "T", "true"), tx.CreateCatalogue(ctx, "/by", "T", "g"),
			tx.Create(ctx, "/a/x", "T", props{"g": 1}), tx.Create(ctx, "/b/x", "T", props{"g": "1"}), tx.Create(ctx, "/b/y", "T", props{"g": "1"}),
			tx.Create(ctx, "/a/z", "T", props{"g": ""}))
	})
	must(t, s.View(ctx, func(tx *docstore.Tx) error {
		for _, c := range []struct {
			path, want docstore.Path
			err        error
		}{
			{"/all/y", "/b/y", nil},
			{"/all/x", "", docstore.ErrAmbiguous},
			{docstore.Path("/all").Child("/a/x"), "/a/x", nil},
			{docstore.Path("/all").Child("/a/y"), "", docstore.ErrNotFound},
			{"/by/1/x", "/b/x", nil},
			{"/by/~i1/x", "/a/x", nil},
			{docstore.Path("/by/1").Child("/b/y"), "/b/y", nil},
			{docstore.Path("/by/1").Child("/a/x"), "", docstore.ErrNotFound},
			{"/by/~s/z", "/a/z", nil},
		} {
			e, err := tx.Entity(ctx, c.path)
			if !errors.Is(err, c.err) || err == nil && (e.Path != c.want || e.Virtual || e.Label != "T") {
				t.Errorf("%s is %+v, %v, want %s, %v", c.path, e, err, c.want, c.err)
			}
		}
		for p, want := range map[docstore.Path]any{"/by/1": "1", "/by/~i1": int64(1), "/by/~s": ""} {
			if e, err := tx.Entity(ctx, p); err != nil || e.Group != want || !e.Virtual || e.Kind != docstore.KindContainer {
				t.Errorf("%s is %+v, %v", p, e, err)
			}
		}
		var got []any
		for e, err := range tx.Children(ctx, "/by", "") {
			must(t, err)
			got = append(got, e.Group)
		}
		if want := []any{"1", int64(1), ""}; !slices.Equal(got, want) {
			t.Errorf("groups %v, want %v", got, want)
		}
		got = nil
		for e, err := range tx.Children(ctx, "/all", "/a/z") {
			must(t, err)
			got = append(got, e.Path)
		}
		if want := []any{docstore.Path("/b/x"), docstore.Path("/b/y")}; !slices.Equal(got, want) {
			t.Errorf("behind /a/z are %v, want %v", got, want)
		}
		return nil
	}))
}

// TestGroups: values that are equal in an expression are one group, whatever their types.
func TestGroups(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	values := []any{1, 1.0, uint64(1), 1.5, uint64(math.MaxUint64), math.MaxInt64, 1<<53 + 1, float64(1 << 53), "1", "", "~i1", "null", nil, true, "true", math.Copysign(0, -1), math.Inf(1), math.NaN(), []any{}, []byte("b"),
		strings.Repeat("x", 1000), strings.Repeat("x", 1001), "a:group:b", "a/b\x00"}
	update(t, s, func(tx *docstore.Tx) error {
		errs := []error{tx.CreateCatalogue(ctx, "/by", "T", "g")}
		for i, v := range values {
			errs = append(errs, tx.Create(ctx, docstore.Path(fmt.Sprintf("/%02d", i)), "T", props{"g": v}))
		}
		return errors.Join(errs...)
	})
	must(t, s.View(ctx, func(tx *docstore.Tx) error {
		found := 0
		for e, err := range tx.Children(ctx, "/by", "") {
			must(t, err)
			members := list(t, tx.Members(ctx, e.Path))
			found += len(members)
			again, err := tx.Entity(ctx, e.Path)
			if err != nil || fmt.Sprint(again.Group) != fmt.Sprint(e.Group) {
				t.Errorf("%.30s is %v, %v, and was listed as %v", e.Path, again, err, e.Group)
			}
			want := 1
			if e.Group == int64(1) {
				want = 3
			}
			if len(members) != want {
				t.Errorf("%.30s has %q", e.Path, members)
			}
		}
		if found != len(values)-3 { // a list, bytes, and a long text
			t.Errorf("%d of %d documents are in groups", found, len(values))
		}
		return nil
	}))
	// A query for each value finds what an expression finds, whether it goes by a group or not.
	must(t, s.View(ctx, func(tx *docstore.Tx) error {
		for _, v := range append(values, int64(1<<53), int64(1<<53+1), float64(1<<53)) {
			opts := &docstore.FindOptions{Params: []any{v}}
			var got, want []docstore.Path
			for d, err := range tx.Find(ctx, "T", "g == p0", opts) {
				must(t, err)
				got = append(got, d.Path)
			}
			for d, err := range tx.Find(ctx, "T", "g == p0 || false", opts) {
				must(t, err)
				want = append(want, d.Path)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%.20v is found at %q, want %q", v, got, want)
			}
		}
		return nil
	}))
	for i := range values {
		update(t, s, func(tx *docstore.Tx) error { return tx.Delete(ctx, docstore.Path(fmt.Sprintf("/%02d", i)), false) })
	}
	update(t, s, func(tx *docstore.Tx) error { return tx.Delete(ctx, "/by", false) })
	if keys, err := docstore.Keys(ctx, s); err != nil || len(keys) != 1 {
		t.Errorf("left are %q, %v", keys, err)
	}
}

// TestSearch: texts and patterns of all lengths and scripts.
func TestSearch(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	docstore.Small(s)
	docs := []string{"", "a", "ab", "abc", "aaaa", "Straße", "STRASSE", "Cafe\u0301", "CAFÉ", "日本語のテキスト", "😀 smile", "a*b", "tail x", "abXcd bcXde", "~\x00:"}
	update(t, s, func(tx *docstore.Tx) error { return tx.CreateIndex(ctx, "/idx", "T", "s") })
	for i, text := range docs {
		update(t, s, func(tx *docstore.Tx) error {
			return tx.Create(ctx, docstore.Path(fmt.Sprintf("/%02d", i)), "T", props{"s": text})
		})
	}
	update(t, s, func(tx *docstore.Tx) error { return tx.Create(ctx, "/none", "T", props{"s": 1}) })
	for _, c := range []struct {
		pattern string
		re      bool
		want    []string
	}{
		{"*", false, docs}, {"**", false, docs}, {"", false, []string{""}},
		{"a", false, []string{"a"}}, {"*a", false, []string{"a", "aaaa"}},
		{"*b", false, []string{"ab", "a*b"}}, {"*X", false, []string{"tail x"}},
		{"ab*", false, []string{"ab", "abc", "abXcd bcXde"}}, {"*bc*", false, []string{"abc", "abXcd bcXde"}},
		{"*aa*", false, []string{"aaaa"}}, {"*aaaa*", false, []string{"aaaa"}}, {"*aaaaa*", false, nil},
		{"strasse", false, []string{"Straße", "STRASSE"}}, {"*ß*", false, []string{"Straße", "STRASSE"}},
		{"café", false, []string{"Cafe\u0301", "CAFÉ"}}, {"*e\u0301", false, []string{"Cafe\u0301", "CAFÉ"}}, {"caf*", false, []string{"Cafe\u0301", "CAFÉ"}},
		{"*本*", false, []string{"日本語のテキスト"}}, {"*語の*", false, []string{"日本語のテキスト"}}, {"😀*", false, []string{"😀 smile"}},
		{"a*b", false, []string{"a*b"}}, {"*a*b*", false, []string{"a*b"}}, {"*xcd bcx*", false, []string{"abXcd bcXde"}}, {"*abxde*", false, nil},
		{"*~\x00*", false, []string{"~\x00:"}}, {"*:", false, []string{"~\x00:"}},
		{"^a.*c", true, []string{"abc", "abXcd bcXde"}}, {"A{4}", true, []string{"aaaa"}}, {"smile|語", true, []string{"日本語のテキスト", "😀 smile"}}, {"[0-9]", true, nil},
	} {
		err := s.View(ctx, func(tx *docstore.Tx) error {
			matches, err := tx.Search(ctx, "/idx", c.pattern, &docstore.SearchOptions{Regexp: c.re})
			must(t, err)
			var got []string
			for _, m := range matches {
				p, err := tx.Properties(ctx, m.Path)
				must(t, err)
				got = append(got, p["s"].(string))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q finds %q, want %q", c.pattern, got, c.want)
			}
			return nil
		})
		must(t, err)
	}
	must(t, s.View(ctx, func(tx *docstore.Tx) error {
		m, err := tx.Search(ctx, "/idx", "*a*", &docstore.SearchOptions{Ranked: true, Limit: 3})
		if want := []docstore.Match{{Path: "/04", Count: 4}, {Path: "/05", Count: 1}, {Path: "/06", Count: 1}}; err != nil || len(m) != 3 || m[0] != want[0] {
			t.Errorf("ranked: %v, %v, want %v", m, err, want)
		}
		m, err = tx.Search(ctx, "/idx", "*a*", &docstore.SearchOptions{After: "/04", Limit: 2})
		if want := []docstore.Match{{Path: "/05", Count: 1}, {Path: "/06", Count: 1}}; err != nil || !slices.Equal(m, want) {
			t.Errorf("behind /04: %v, %v, want %v", m, err, want)
		}
		return nil
	}))
	checked(t, s)
}

func TestHooks(t *testing.T) {
	ctx := t.Context()
	var log []string
	refuse := errors.New("refused")
	hook := func(ctx context.Context, tx *docstore.Tx, e *docstore.Event) error {
		log = append(log, fmt.Sprint(e.Op, " ", e.Path, " ", e.From, " ", e.Kind, " ", e.Label, " ", e.Before, " ", e.After))
		switch {
		case e.After["refuse"] == true:
			return refuse
		case e.After["loop"] == true:
			return tx.SetProperty(ctx, e.Path, "again", true)
		case e.Op == docstore.OpDelete && e.Label == "T":
			return tx.Create(ctx, "/trace", "Trace", docstore.Properties{"of": string(e.Path)})
		}
		return nil
	}
	s := open(t, &docstore.Options{Hooks: []docstore.Hook{hook}})
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateContainer(ctx, "/c"), tx.CreateCategory(ctx, "/cat", "T", "n == 1"), tx.Create(ctx, "/c/d", "T", props{"n": 1}),
			tx.SetProperty(ctx, "/c/d", "n", 2), tx.Move(ctx, "/c", "/e"), tx.Delete(ctx, "/e/d", false))
	})
	want := []string{
		"create /c  container  map[] map[]", "create /cat  category  map[] map[]", "create /c/d  document T map[] map[n:1]", "update /c/d  document T map[n:1] map[n:2]",
		"move /e/d /c/d document T map[n:2] map[n:2]", "move /e /c container  map[] map[]", "delete /e/d  document T map[n:2] map[]", "create /trace  document Trace map[] map[of:/e/d]",
	}
	if !slices.Equal(log, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(log, "\n"), strings.Join(want, "\n"))
	}
	if err := s.Update(ctx, func(tx *docstore.Tx) error { return tx.Create(ctx, "/r", "T", props{"refuse": true}) }); !errors.Is(err, refuse) {
		t.Errorf("a hook's error becomes %v", err)
	}
	if err := s.Update(ctx, func(tx *docstore.Tx) error { _ = tx.Create(ctx, "/r", "T", props{"refuse": true}); return nil }); !errors.Is(err, refuse) {
		t.Errorf("a hook's error that is passed over becomes %v", err)
	}
	if err := s.Update(ctx, func(tx *docstore.Tx) error { return tx.Create(ctx, "/l", "T", props{"loop": true}) }); !errors.Is(err, docstore.ErrOperation) {
		t.Errorf("hooks that call each other for ever: %v", err)
	}
	must(t, s.View(ctx, func(tx *docstore.Tx) error {
		if got := list(t, tx.Members(ctx, "/")); !slices.Equal(got, []docstore.Path{"/cat", "/e", "/trace"}) {
			t.Errorf("left are %q", got)
		}
		return nil
	}))
}

func TestAlgebra(t *testing.T) {
	seq := func(s string) docstore.Paths {
		return func(yield func(docstore.Path, error) bool) {
			for _, p := range strings.Fields(s) {
				if !yield(docstore.Path(p), nil) {
					return
				}
			}
		}
	}
	boom := errors.New("boom")
	broken := func(yield func(docstore.Path, error) bool) { _ = yield("/a", nil) && yield("", boom) }
	join := func(p docstore.Paths) string { return fmt.Sprint(list(t, p)) }
	a, b := seq("/a /b /c"), seq("/b /c /d")
	for _, c := range []struct{ name, got, want string }{
		{"union", join(docstore.Union(a, b, seq("/e"))), "[/a /b /c /d /e]"},
		{"union of none", join(docstore.Union()), "[]"},
		{"intersection", join(docstore.Intersection(a, b)), "[/b /c]"},
		{"intersection of none", join(docstore.Intersection()), "[]"},
		{"difference", join(docstore.Difference(a, b)), "[/a]"},
		{"symmetric difference", join(docstore.SymmetricDifference(a, b)), "[/a /d]"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, c.got, c.want)
		}
	}
	for name, c := range map[string]struct {
		do   func(a, b docstore.Paths) (bool, error)
		a, b docstore.Paths
		want bool
	}{
		"subset": {docstore.Subset, seq("/b"), a, true}, "not a subset": {docstore.Subset, b, a, false}, "the empty set": {docstore.Subset, seq(""), a, true},
		"equal": {docstore.Equal, a, a, true}, "not equal": {docstore.Equal, a, b, false},
	} {
		if got, err := c.do(c.a, c.b); err != nil || got != c.want {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, c.want)
		}
	}
	if _, err := docstore.Equal(broken, seq("/a /b")); !errors.Is(err, boom) {
		t.Errorf("an operand's error becomes %v", err)
	}
	for range docstore.Union(a, b) {
		break // the operands end as well
	}
}

// TestFormat: a store of a newer version, a damaged one, and engines and names that can't be.
func TestFormat(t *testing.T) {
	ctx := t.Context()
	e := memkv.New()
	s, err := docstore.Open(ctx, e, "f", nil)
	must(t, err)
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.Create(ctx, "/d", "T", props{"n": 1}), tx.CreateCategory(ctx, "/cat", "T", "n == 1"))
	})
	for key, value := range map[string][]byte{"entity:/d": {7}, "props:/d": {8, 0}, "config:/cat": {5}, "reg:T\x00/cat": []byte("{")} {
		keep := memkv.New()
		s, err := docstore.Open(ctx, keep, "f", nil)
		must(t, err)
		update(t, s, func(tx *docstore.Tx) error {
			return errors.Join(tx.Create(ctx, "/d", "T", props{"n": 1}), tx.CreateCategory(ctx, "/cat", "T", "n == 1"))
		})
		must(t, docstore.Raw(ctx, s, key, value))
		err = s.Update(ctx, func(tx *docstore.Tx) error {
			if _, err := tx.Entity(ctx, "/cat"); err != nil {
				return err
			}
			return tx.SetProperty(ctx, "/d", "n", 2)
		})
		if !errors.Is(err, docstore.ErrCorrupt) {
			t.Errorf("%q damaged: %v", key, err)
		}
		if problems, err := s.Check(ctx); err != nil && !errors.Is(err, docstore.ErrCorrupt) || err == nil && len(problems) == 0 {
			t.Errorf("%q damaged: check finds %q, %v", key, problems, err)
		}
	}
	must(t, docstore.Raw(ctx, s, "orphan:/x", nil))
	if problems, err := s.Check(ctx); err != nil || len(problems) != 1 {
		t.Errorf("a row of nothing: %q, %v", problems, err)
	}
	must(t, docstore.Raw(ctx, s, "meta", []byte(`{"v":2}`)))
	if _, err := docstore.Open(ctx, e, "f", nil); !errors.Is(err, docstore.ErrNewerFormat) {
		t.Errorf("a newer store is opened with %v", err)
	}
	if _, err := docstore.Open(ctx, e, "\xff", nil); err == nil {
		t.Error("a name that isn't UTF-8 is taken")
	}
}

// TestTooLong: a document with a text that is too long for an index is refused, and can still be deleted.
func TestTooLong(t *testing.T) {
	ctx := t.Context()
	s := open(t, nil)
	docstore.Small(s)
	half := strings.Repeat("a", 600_000)
	for i := range 5 {
		update(t, s, func(tx *docstore.Tx) error {
			return tx.Create(ctx, docstore.Path(fmt.Sprint("/", i)), "T", props{"s": half})
		})
	}
	update(t, s, func(tx *docstore.Tx) error {
		return errors.Join(tx.CreateIndex(ctx, "/ok", "T", "s"), tx.CreateIndex(ctx, "/twice", "T", "s + s"))
	})
	must(t, s.Build(ctx, "/ok", nil))
	var known *docstore.Error
	if err := s.Build(ctx, "/twice", nil); !errors.Is(err, docstore.ErrTooLarge) || !errors.As(err, &known) || known.Path != "/0" {
		t.Errorf("the build is %v", err)
	}
	err := s.Update(ctx, func(tx *docstore.Tx) error { return tx.SetProperty(ctx, "/0", "n", 1) })
	if err != nil { // its text is as it was
		t.Errorf("a change is %v", err)
	}
	err = s.Update(ctx, func(tx *docstore.Tx) error { return tx.SetProperty(ctx, "/0", "s", half+"b") })
	if !errors.Is(err, docstore.ErrTooLarge) {
		t.Errorf("another text is %v", err)
	}
	for i := range 5 {
		update(t, s, func(tx *docstore.Tx) error { return tx.Delete(ctx, docstore.Path(fmt.Sprint("/", i)), false) })
	}
	must(t, s.Build(ctx, "/twice", nil))
	checked(t, s)
}
