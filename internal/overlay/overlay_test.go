package overlay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAgainstModel runs random writes against a map of what each of a few keys is,
// and compares everything that can be asked after each.
func TestAgainstModel(t *testing.T) {
	var universe []string
	for _, a := range "abcdef" {
		universe = append(universe, string(a), string(a)+"\x00", string(a)+"m")
	}
	rapid.Check(t, func(t *rapid.T) {
		var m Map[string]
		model := map[string]string{}
		key := rapid.SampledFrom(universe)
		type frozen struct {
			m     Map[string]
			model map[string]string
		}
		var copies []frozen
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			k := key.Draw(t, "key")
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0, 1:
				m.Set([]byte(k), []byte("v"+k))
				model[k] = "v" + k
			case 2:
				m.Clear([]byte(k))
				model[k] = "-"
			case 3:
				m.Put(Point[string]{Key: []byte(k), Pending: "p" + k, Kind: Pending})
				model[k] = "p" + k
			case 4:
				end := key.Draw(t, "end")
				if k < end {
					m.ClearRange([]byte(k), []byte(end))
					for _, u := range universe {
						if u >= k && u < end {
							model[u] = "-"
						}
					}
				}
			case 5:
				copies = append(copies, frozen{m.Freeze(), maps.Clone(model)})
			}
			compare(t, &m, model, universe)
		}
		for _, c := range copies {
			compare(t, &c.m, c.model, universe)
		}
	})
}

func compare(t *rapid.T, m *Map[string], model map[string]string, universe []string) {
	for _, u := range universe {
		p, ok := m.Get([]byte(u))
		if got, want := show(p, ok), model[u]; got != want {
			t.Fatalf("%q: got %q, want %q", u, got, want)
		}
	}
	for _, bounds := range [][2]string{{"", ""}, {"b", "e"}, {"a\x00", "am"}, {"c", ""}, {"", "d"}, {"d", "c"}} {
		var end []byte
		if bounds[1] != "" {
			end = []byte(bounds[1])
		}
		inside := slices.DeleteFunc(slices.Clone(universe), func(u string) bool {
			return u < bounds[0] || end != nil && u >= bounds[1]
		})
		for _, reverse := range []bool{false, true} {
			got, want := walk(m, bounds[0], end, reverse, universe), inside
			if reverse {
				want = slices.Clone(inside)
				slices.Reverse(want)
			}
			var lines []string
			for _, u := range want {
				lines = append(lines, fmt.Sprintf("%q:%s", u, model[u]))
			}
			if want := strings.Join(lines, " "); got != want {
				t.Fatalf("%q reverse %v:\ngot  %s\nwant %s", bounds, reverse, got, want)
			}
		}
	}
}

func show(p Point[string], ok bool) string {
	switch {
	case !ok:
		return ""
	case p.Kind == Value:
		return string(p.Value)
	case p.Kind == Pending:
		return p.Pending
	}
	return "-"
}

// walk prints the state of all keys of a range, as the segments and cursors tell it.
func walk(m *Map[string], start string, end []byte, reverse bool, universe []string) string {
	var out []string
	last := ""
	m.Segments([]byte(start), end, reverse, func(s, e []byte, cleared bool) bool {
		if e != nil && string(s) >= string(e) {
			out = append(out, fmt.Sprintf("empty segment [%q, %q)", s, e))
		}
		if kind := fmt.Sprint(cleared); kind == last {
			out = append(out, "two segments of a kind in a row")
		} else {
			last = kind
		}
		points := map[string]string{}
		for c := m.Cursor(s, e, reverse); c.Valid(); c.Next() {
			points[string(c.Point().Key)] = show(c.Point(), true)
		}
		keys := slices.Clone(universe)
		slices.Sort(keys)
		if reverse {
			slices.Reverse(keys)
		}
		for _, u := range keys {
			if u < string(s) || e != nil && u >= string(e) {
				continue
			}
			state, ok := points[u]
			if !ok && cleared {
				state = "-"
			}
			out = append(out, fmt.Sprintf("%q:%s", u, state))
		}
		return true
	})
	return strings.Join(out, " ")
}

// TestCursorOrder: points come in order, and in the reverse one.
func TestCursorOrder(t *testing.T) {
	var m Map[struct{}]
	for _, k := range []string{"c", "a", "e", "b", "d"} {
		m.Set([]byte(k), nil)
	}
	for _, tt := range []struct {
		start, end string
		reverse    bool
		want       string
	}{
		{"", "", false, "abcde"}, {"", "", true, "edcba"}, {"b", "d", false, "bc"}, {"b", "d", true, "cb"},
		{"bb", "x", false, "cde"}, {"bb", "x", true, "edc"}, {"x", "", false, ""}, {"", "a", true, ""},
	} {
		var end []byte
		if tt.end != "" {
			end = []byte(tt.end)
		}
		got := ""
		for c := m.Cursor([]byte(tt.start), end, tt.reverse); c.Valid(); c.Next() {
			got += string(c.Point().Key)
		}
		if got != tt.want {
			t.Errorf("[%q, %q) reverse %v: got %q, want %q", tt.start, tt.end, tt.reverse, got, tt.want)
		}
	}
}
