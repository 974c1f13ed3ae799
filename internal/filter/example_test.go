package filter_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/greenroomdb/greenroom/internal/filter"
)

// Which of some items are open and urgent. One has a priority that isn't a number: it doesn't
// match, and is counted.
func Example_alone() {
	urgent, err := filter.Compile(`this.status == "open" && this.priority >= 2`, &filter.Options{Names: []string{"this"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	mismatches := 0
	for _, item := range []map[string]any{
		{"name": "leak", "status": "open", "priority": 3},
		{"name": "typo", "status": "open", "priority": 1},
		{"name": "idea", "status": "open", "priority": "high"},
		{"name": "fire", "status": "closed", "priority": 3},
	} {
		ok, err := urgent.Match(context.Background(), filter.Map{"this": item})
		switch {
		case ok:
			fmt.Println(item["name"])
		case errors.Is(err, filter.ErrMismatch):
			mismatches++
		case err != nil:
			fmt.Println(err)
		}
	}
	fmt.Println(mismatches, "without a priority")
	_, err = filter.Compile(`this.status = "open"`, nil)
	fmt.Println(err)
	// Output:
	// leak
	// 1 without a priority
	// filter: 1:13: token recognition error at: '= '
}
