package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestReadRecords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "old.json")
	var b bytes.Buffer
	for range 2 {
		check(json.NewEncoder(&b).Encode(sampled()))
	}
	// As the program wrote them before there were intervals.
	b.WriteString(`{"name":"kv/put","subject":"greenroom-pebble","peer":"raw","ratio":0.5}` + "\n")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readRecords(file)
	if err != nil || len(got) != 3 || !reflect.DeepEqual(got[0], sampled()) || got[2].Ratio != 0.5 {
		t.Errorf("read %+v, %v", got, err)
	}
	for _, text := range []string{"", "{}", "workload peer", `{"name":"a","ratio":1}{"name":"b"}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readRecords(file); err == nil {
			t.Errorf("%s was read as %+v", text, got)
		}
	}
}

func TestSince(t *testing.T) {
	for _, tt := range []struct {
		before, after [2]float64 // intervals
		want          string
	}{
		{[2]float64{0.9, 1.1}, [2]float64{1.2, 1.4}, "faster"},
		{[2]float64{0.9, 1.1}, [2]float64{0.6, 0.8}, "slower"},
		{[2]float64{0.9, 1.1}, [2]float64{1.1, 1.4}, ""},
		{[2]float64{0.9, 1.1}, [2]float64{0.5, 0.9}, ""},
		{[2]float64{}, [2]float64{5, 6}, ""},
	} {
		before, after := record{RatioLow: tt.before[0], RatioHigh: tt.before[1]}, record{RatioLow: tt.after[0], RatioHigh: tt.after[1]}
		if got := (change{after, &before}).Since(); got != tt.want {
			t.Errorf("%v then %v is %q, want %q", tt.before, tt.after, got, tt.want)
		}
	}
}

// TestWriteChanges: lines are paired by workload, subject and peer, and the newest record of
// before counts.
func TestWriteChanges(t *testing.T) {
	older, old := sampled(), sampled()
	older.Ratio, old.Ratio, old.RatioLow, old.RatioHigh = 9, 0.5, 0.4, 0.6
	old.Environment = "a laptop"
	other := old
	other.Subject = "greenroom-mem"
	var b strings.Builder
	if err := writeChanges(&b, paired([]record{older, old, other}, []record{sampled()})); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 7 || lines[5] != "before: a laptop" || lines[6] != "after:  a server" { // one row in a frame, under a head
		t.Fatalf("want one row:\n%s", b.String())
	}
	for _, what := range []string{"sqlite/point", "file-wal-full", " 0.5 ", "0.4–0.6", " 2.5 ", "1–4", " 5 ", "faster"} {
		if !strings.Contains(lines[3], what) {
			t.Errorf("the row lacks %q: %s", what, lines[3])
		}
	}
	b.Reset()
	if err := writeChanges(&b, paired([]record{other}, []record{sampled()})); err != nil || !strings.HasPrefix(b.String(), "nothing to compare") {
		t.Errorf("without pairs: %q, %v", b.String(), err)
	}
}

// TestProgramCompares runs the program against a run of its own, and has it draw a page.
func TestProgramCompares(t *testing.T) {
	old, page := filepath.Join(t.TempDir(), "old.json"), filepath.Join(t.TempDir(), "page.html")
	var out, info bytes.Buffer
	if err := tiny(t, "-json", "-run", "sqlite/insert-1 raw").measureAll(t.Context(), &out, &info); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if err := tiny(t, "-run", "sqlite/insert-1 raw", "-compare", old, "-html", page).measureAll(t.Context(), &out, &info); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "after/before") {
		t.Errorf("the output compares nothing:\n%s", out.String())
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"the run before", "<td>raw</td>", "<dt>fsync</dt>", `class="bar before"`} {
		if !strings.Contains(string(html), what) {
			t.Errorf("the page lacks %q", what)
		}
	}
	if err := tiny(t, "-run", "sqlite/insert-1 raw", "-compare", old+".missing").measureAll(t.Context(), &out, &info); err == nil {
		t.Error("no error for a file that isn't there")
	}
}

// TestTargets: what is promised is measured, under that name.
func TestTargets(t *testing.T) {
	titles := map[string]bool{}
	promised := 0
	for _, l := range lines(enginePebble, false) {
		if titles[l.title()] {
			t.Errorf("two lines are called %q", l.title())
		}
		titles[l.title()] = true
		if l.atLeast > 0 {
			promised++
		}
	}
	if promised != 32 {
		t.Errorf("%d lines have a target, want 32", promised)
	}
}

// TestDriverLines: other drivers are measured on request alone.
func TestDriverLines(t *testing.T) {
	all, few := lines(enginePebble, true), lines(enginePebble, false)
	if got := len(all) - len(few); got != 15+25 {
		t.Errorf("%d lines more with other drivers and products, want 40", got)
	}
}
