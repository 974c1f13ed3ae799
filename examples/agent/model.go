package main

import (
	"errors"
	"strconv"
	"strings"
	"unicode"
)

// A plan is what the model wants to be done.
type plan struct {
	Tool  string `json:"tool"`
	To    string `json:"to"`
	Text  string `json:"text"`
	Risky bool   `json:"risky"` // it can't be undone: a human being must agree
}

// think is the model: from a task, and what the assistant knows about it, the best first,
// it makes a plan.
func think(task string, facts []string) plan {
	words := strings.Fields(task)
	switch {
	case words[0] == "add":
		return plan{Tool: "add", Text: strings.Join(words[1:], " ")}
	case words[0] == "mail" && len(words) > 2:
		for _, fact := range facts {
			for word := range strings.FieldsSeq(fact) {
				if strings.Contains(word, "@") {
					return plan{Tool: "mail", To: word, Text: strings.Join(words[2:], " "), Risky: true}
				}
			}
		}
		return plan{Tool: "answer", Text: "I know no address of " + words[1]}
	case len(facts) > 0:
		return plan{Tool: "answer", Text: facts[0]}
	}
	return plan{Tool: "answer", Text: "I don't know"}
}

// errNumber is what no further attempt mends.
var errNumber = errors.New("that's no number")

// sum is a tool.
func sum(text string) (string, error) {
	total := 0
	for word := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(word)
		if err != nil {
			return "", errNumber
		}
		total += n
	}
	return strconv.Itoa(total), nil
}

// query returns the words of a text as a query of FTS5 for any of them
// (https://sqlite.org/fts5.html#full_text_query_syntax).
func query(text string) string {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	for i, w := range words {
		words[i] = `"` + w + `"`
	}
	return strings.Join(words, " OR ")
}
