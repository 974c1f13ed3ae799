package main

import (
	"slices"
	"strings"
	"testing"
)

// split cuts text that arrives in lines.
func split(text string) (whole []piece, rest string) {
	s := newSplitter()
	for line := range strings.Lines(text) {
		s.add(line)
		for p, ok := s.next(); ok; p, ok = s.next() {
			whole = append(whole, p)
		}
	}
	if p, ok := s.rest(); ok {
		rest = p.text
	}
	return whole, rest
}

func TestSplit(t *testing.T) {
	tests := []struct {
		text  string
		whole []string
		rest  string
	}{
		{"", nil, ""},
		{" \n\t", nil, ""},
		{"select 1", nil, "select 1"},
		{"select 1;", []string{"select 1;"}, ""},
		{"select 1; select 2;\nselect 3", []string{"select 1;", " select 2;"}, "\nselect 3"},
		{";;select 1;", []string{";;select 1;"}, ""},
		{"select ';', \"a;b\", `c;`, [d;e];", []string{"select ';', \"a;b\", `c;`, [d;e];"}, ""},
		{"select 'it''s; one';select 2;", []string{"select 'it''s; one';", "select 2;"}, ""},
		{"select 'a\n;\nb';", []string{"select 'a\n;\nb';"}, ""},
		{"-- note; 'quote\nselect 1;", []string{"-- note; 'quote\nselect 1;"}, ""},
		{"select 1 -- one;\n;", []string{"select 1 -- one;\n;"}, ""},
		{"select /* ; ' */ 1;", []string{"select /* ; ' */ 1;"}, ""},
		{"/*/ ; */ select 1;", []string{"/*/ ; */ select 1;"}, ""},
		{"/** ; **/select 1;", []string{"/** ; **/select 1;"}, ""},
		{"select 4-2;select 4/2;select 4*-1;", []string{"select 4-2;", "select 4/2;", "select 4*-1;"}, ""},
		{"select 1-;", []string{"select 1-;"}, ""},
		{"-- only a comment;", nil, ""},
		{"/* only; */", nil, ""},
		{"-", nil, "-"},
		{
			"create trigger r after insert on t begin select 1; select 2; end; select 3;",
			[]string{"create trigger r after insert on t begin select 1; select 2; end;", " select 3;"}, "",
		},
		{
			"CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN\n UPDATE t SET a=CASE WHEN 1 THEN 2 END;\nEND\n;\n",
			[]string{"CREATE TEMP TRIGGER r AFTER INSERT ON t BEGIN\n UPDATE t SET a=CASE WHEN 1 THEN 2 END;\nEND\n;"}, "",
		},
		{
			"create /* x */ temporary -- y;\n trigger r after insert on t begin select 'end'; end; ",
			[]string{"create /* x */ temporary -- y;\n trigger r after insert on t begin select 'end'; end;"}, "",
		},
		{
			"explain query plan create trigger r after insert on t begin select 1; end;",
			[]string{"explain query plan create trigger r after insert on t begin select 1; end;"}, "",
		},
		{"create trigger r begin select 1; ending; end x; end", nil, "create trigger r begin select 1; ending; end x; end"},
		{"create table trigger(a); select 1;", []string{"create table trigger(a);", " select 1;"}, ""},
		{"create table t(\"trigger\"); select 1;", []string{"create table t(\"trigger\");", " select 1;"}, ""},
		{"select x'3b3b', 1e-5, :a, $b, ?1;", []string{"select x'3b3b', 1e-5, :a, $b, ?1;"}, ""},
		{"select 'ünï;cödé' as größe;", []string{"select 'ünï;cödé' as größe;"}, ""},
		{"select 'open; select 1;", nil, "select 'open; select 1;"},
	}
	for _, test := range tests {
		whole, rest := split(test.text)
		var got []string
		for _, p := range whole {
			got = append(got, p.text)
		}
		if !slices.Equal(got, test.whole) || rest != test.rest {
			t.Errorf("%q:\n got %q, rest %q\nwant %q, rest %q", test.text, got, rest, test.whole, test.rest)
		}
	}
}

func TestSplitLines(t *testing.T) {
	whole, _ := split("\n-- one\nselect 1; -- a\n/* b\n */ select\n 2;\n- 3; ;\n\n;\nx")
	got := make([]int, len(whole))
	for i, p := range whole {
		got[i] = p.line
	}
	if want := []int{3, 5, 7}; !slices.Equal(got, want) {
		t.Errorf("lines %v, want %v", got, want)
	}
	if got := whole[1].lineAt(strings.Index(whole[1].text, "2")); got != 6 {
		t.Errorf("the 2 is on line %d, want 6", got)
	}
}

func TestSplitPending(t *testing.T) {
	s := newSplitter()
	for _, step := range []struct {
		line string
		want bool
	}{
		{"\n", false},
		{"-- a comment\n", false},
		{"/* a comment\n", true},
		{"that ends */\n", false},
		{"select\n", true},
		{"1;\n", false},
		{"select 1; select 'a\n", true},
		{"';\n", false},
	} {
		s.add(step.line)
		for _, ok := s.next(); ok; _, ok = s.next() {
			continue
		}
		if got := s.pending(); got != step.want {
			t.Errorf("after %q: pending %v, want %v", step.line, got, step.want)
		}
	}
	s.add("select (\n")
	s.next()
	s.drop()
	s.add("select 2;")
	if p, ok := s.next(); !ok || p.text != "select 2;" {
		t.Errorf("after drop: %q, %v", p.text, ok)
	}
}

// FuzzSplit checks that nothing is lost or moved, wherever the input is cut.
func FuzzSplit(f *testing.F) {
	f.Add("select 1; create trigger a begin b; end; 'x;", uint(3))
	f.Add("-- /* ' \n /* -- */ [a;] - / -;", uint(1))
	f.Fuzz(func(t *testing.T, text string, at uint) {
		cut := int(at % uint(len(text)+1))
		parts := newSplitter()
		var got, want []piece
		for _, part := range []string{text[:cut], text[cut:]} {
			parts.add(part)
			for p, ok := parts.next(); ok; p, ok = parts.next() {
				got = append(got, p)
			}
		}
		once := newSplitter()
		once.add(text)
		for p, ok := once.next(); ok; p, ok = once.next() {
			want = append(want, p)
		}
		if !slices.Equal(got, want) {
			t.Errorf("cut at %d: %v, at once: %v", cut, got, want)
		}
		var all strings.Builder
		for _, p := range got {
			if !strings.HasSuffix(p.text, ";") {
				t.Errorf("%q doesn't end with a semicolon", p.text)
			}
			if c := p.text[p.head]; p.line < 1 || strings.IndexByte(" \t\n\f\r\v;", c) >= 0 {
				t.Errorf("%q: first token %q at line %d", p.text, c, p.line)
			}
			all.WriteString(p.text)
		}
		all.WriteString(parts.cut().text)
		if all.String() != text {
			t.Errorf("pieces make %q, not %q", all.String(), text)
		}
	})
}
