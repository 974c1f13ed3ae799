package lint

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// A word is something that no file may contain.
type word struct {
	// Pattern matches it within one line.
	Pattern *regexp.Regexp
	// Parts are in lower case. Every match has one of them, so that most files need no Pattern, which is slow.
	Parts []string
	// Code limits the rule to Go files.
	Code bool
	// Text says what is wrong with it.
	Text string
}

// words lists them. The patterns are written so that they don't match their own
// source.
var words = []word{
	{regexp.MustCompile(`\b(TOD[O]|FIXM[E]|XX[X]|HAC[K])\b`), []string{"tod", "fixm", "xx", "hac"}, false, "something is left open: do it, or write down under \"planned\" what is missing"},
	{regexp.MustCompile(`(?i)\b(not |un)implemente[d]\b`), []string{"implemente"}, true, "a stub: leave the function out until it works"},
	{regexp.MustCompile(`(^|[\s"'` + "`" + `(=:])/(wor[k]|tm[p])\b`), []string{"/wor", "/tm"}, false, "a path of one machine: ask for a temporary folder"},
	{regexp.MustCompile(`\bshare[d]/(design|style|reference|vectors|seeds|data|experiments)`), []string{"shared/"}, false, "a path that a checkout doesn't have"},
	{regexp.MustCompile(`\breferenc[e]/(runtime|models|sqlite|engines|snapshot-readers|style-anchors)\b`), []string{"reference/"}, false, "a path that a checkout doesn't have"},
	{regexp.MustCompile(`(?i)\b(seed 00\d|(design|runtime|models|sqlite)\.md §|design [§])`), []string{"seed 00", "§"}, false, "a document that a reader can't open: say what it says"},
	{regexp.MustCompile(`(?i)\b(issue|issues|fixes|closes|resolves) #?\d+\b`), []string{"issue", "fixes", "closes", "resolves"}, false, "an issue number: say what it was about"},
	{regexp.MustCompile(`(?i)\b(subagen[t]s?|workplac[e]|chatgp[t]|claud[e]|anthropi[c]|this sessio[n]|my brie[f])\b`), []string{"subagen", "workplac", "chatgp", "claud", "anthropi", "this sessio", "my brie"}, false, "who wrote it is no part of the project"},
}

// checkWords looks for words in every file that people write. The rule about
// numbers of issues spares links, which say whose issue it is.
func checkWords(t *tree) []finding {
	var fs []finding
	for _, x := range t.Texts {
		text := strings.ToLower(x.Data)
		for _, w := range words {
			if w.Code && path.Ext(x.Path) != ".go" || !w.mayBeIn(text) {
				continue
			}
			line := 0
			for text := range strings.Lines(x.Data) {
				line++
				if m := w.Pattern.FindString(text); m != "" {
					fs = append(fs, finding{x.Path, line, "says " + strings.TrimSpace(m) + ": " + w.Text})
				}
			}
		}
	}
	return fs
}

// mayBeIn says whether a text in lower case has one of the parts of w.
func (w word) mayBeIn(lower string) bool {
	return slices.ContainsFunc(w.Parts, func(part string) bool { return strings.Contains(lower, part) })
}
