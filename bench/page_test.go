package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPage: the page says everything once, draws what has an interval within its axis, and a
// browser loads nothing for it.
func TestPage(t *testing.T) {
	at := func(peer string, low, high, atLeast float64) change {
		r := sampled()
		r.Peer, r.RatioLow, r.RatioHigh, r.AtLeast = peer, low, high, atLeast
		return change{record: r}
	}
	lines := []change{at("a", 1, 4, 0.9), at("b", 0.5, 2, 1), at("<b>&", 0.5, 0.8, 1), at("d", 9, 1000, 0)}
	before := lines[0].record
	lines[0].Before = &before
	file := filepath.Join(t.TempDir(), "page.html")
	writePage(file, newPage(facts{{"cpu", "a <fast> one"}}, lines))
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	for what, n := range map[string]int{
		"a &lt;fast&gt; one": 1, "<b>&": 0, "&lt;b&gt;&amp;": 1, ">1–4<": 1, "Of 3 lines with a target, 1 reach": 1, "<tr>": 5,
		`class="bar reached"`: 1, `class="bar near"`: 1, `class="bar missed"`: 1, `class="bar open"`: 1, `class="bar before"`: 1,
		"<td>1 </td>": 1, "ZgotmplZ": 0, "left: -": 0, "NaN": 0,
		"<script": 0, "src=": 0, "<link": 0, "@import": 0, "url(": 0, "href=": 0,
	} {
		if c := strings.Count(got, what); c != n {
			t.Errorf("the page has %q %d times, want %d", what, c, n)
		}
	}
}

// TestAxis: it holds all that is drawn, and has names, however near or far the lines are.
func TestAxis(t *testing.T) {
	for _, ends := range [][2]float64{{1, 1}, {0.9, 1.1}, {0.02, 30}, {5, 5000}} {
		p := newPage(nil, []change{{record: record{Ratio: ends[0], RatioLow: ends[0], RatioHigh: ends[1]}}})
		if a, b := p.At(ends[0]), p.At(ends[1]); a <= 0 || b >= 100 || a > b || len(p.Ticks) == 0 || len(p.Ticks) > 6 {
			t.Errorf("%v: from %v to %v, with names for %v", ends, a, b, p.Ticks)
		}
	}
}
