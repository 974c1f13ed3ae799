package serving

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// DidYouMean is what an error says of the names that are nearest to one that isn't there,
// "" if none is near. It shows three at most.
func DidYouMean(name string, names []string) string {
	best := min(3, (utf8.RuneCountInString(name)+1)/3) // letters that a slip may have changed
	var near []string
	for _, other := range names {
		switch d := distance(name, other); {
		case d == 0 || d > best:
		case d < best || len(near) == 0:
			near, best = []string{other}, d
		default:
			near = append(near, other)
		}
	}
	if len(near) == 0 {
		return ""
	}
	slices.Sort(near)
	return "; did you mean " + strings.Join(near[:min(3, len(near))], " or ") + "?"
}

// distance counts the letters that are put in, left out, replaced, or exchanged with the next
// one between two words.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	d := make([][]int, len(x)+1)
	for i := range d {
		d[i] = make([]int, len(y)+1)
		for j := range d[i] {
			switch {
			case i == 0 || j == 0:
				d[i][j] = i + j
				continue
			case x[i-1] == y[j-1]:
				d[i][j] = d[i-1][j-1]
				continue
			}
			d[i][j] = 1 + min(d[i-1][j-1], d[i-1][j], d[i][j-1])
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d[i][j] = min(d[i][j], 1+d[i-2][j-2])
			}
		}
	}
	return d[len(x)][len(y)]
}
