package queue

import "slices"

// An answer is what a caller that waits for a message gets.
type answer struct {
	response Raw
	err      error
}

// answers has, for each message that callers wait for, the channels of those callers. Each channel holds one
// answer, and gets one at most.
type answers map[ID][]chan answer

// give tells all that wait for a message.
func (all answers) give(id ID, got answer) {
	for _, came := range all[id] {
		came <- got // there is room: it is the only one
	}
	delete(all, id)
}

// take returns what all that wait for a message are to be told, and forgets that they wait.
func (all answers) take(id ID, what answer) (t told, waited bool) {
	if t = (told{all[id], what}); len(t.who) == 0 {
		return told{}, false
	}
	delete(all, id)
	return t, true
}

// stop forgets that one caller waits for a message.
func (all answers) stop(id ID, came chan answer) {
	rest := slices.DeleteFunc(all[id], func(o chan answer) bool { return o == came })
	if all[id] = rest; len(rest) == 0 {
		delete(all, id)
	}
}

// A told is what some learn when it is on stable storage.
type told struct {
	who  []chan answer
	what answer
}

// tell tells what has become of a commit that was applied: that it is durable, or why
// that can't be known.
func tell(all []told, err error) {
	for _, t := range all {
		if err != nil {
			t.what = answer{err: err}
		}
		for _, came := range t.who {
			came <- t.what // there is room: it is the only one
		}
	}
}
