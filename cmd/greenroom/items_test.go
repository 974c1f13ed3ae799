package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/greenroomdb/greenroom"
	"github.com/greenroomdb/greenroom/internal/storeurl"
	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv"
)

// The types of a school: first, and then with another alias, which two students would have.
type (
	course struct {
		_       struct{} `path:"/course-:ID/year-:Year" name:"Course"`
		ID      string
		Year    int
		Name    string `item:"default=to be announced"`
		Reading []byte
	}
	student struct {
		_     struct{} `path:"/student-:ID, /classof-:Class/student-:ID ref" name:"Student"`
		ID    uint64   `item:"rand53"`
		Class uint
		Name  string `item:"required" valid:"size(this) < 20"`
	}
	renamed struct {
		_    struct{} `path:"/student-:ID, /classof-:Year/student-:ID ref, /name-:Name" name:"Student"`
		ID   uint64   `item:"rand53"`
		Year uint     `item:"was=Class,deprecated"`
		Name string   `item:"required" valid:"size(this) < 20"`
	}
	enrolled struct {
		_       struct{} `path:"/course-:Course/year-:Year/student-:Student, /student-:Student/year-:Year/course-:Course nosync" name:"Enrolled" ttl:"at :Until"`
		Course  string
		Year    int
		Student uint64
		Until   time.Time
		Marks   []mark
	}
	mark struct {
		Points int
		Paper  []byte
	}
)

// TestItems runs the commands in testdata/items, each file in an empty folder. "greenroom" is as in TestCommands,
// and $token is the last token that was written, which shows as TOKEN. "school" puts items of the name that it is
// given, or publishes version 2 of their schema; "busy" has the
// store open while the command runs; "damage" removes a row.
func TestItems(t *testing.T) {
	runFiles(t, "items", func() directives {
		s := &itemsSession{}
		return func(t *testing.T, d *datadriven.TestData) (string, bool) {
			switch d.Cmd {
			case "greenroom":
				return s.run(t, d.Input), true
			case "busy":
				return onEngine(t, func(kv.Engine) string { return s.run(t, d.Input) }), true
			case "school":
				return onEngine(t, func(e kv.Engine) string { return putSchool(t, e, d) }), true
			case "damage":
				return onEngine(t, func(e kv.Engine) string { return removeRow(t, e, "classof") }), true
			}
			return "", false
		}
	})
}

// An itemsSession is the commands of a file.
type itemsSession struct{ token string }

var (
	tokens    = regexp.MustCompile(`(?:^|\n|")([A-Za-z0-9_-]{150,})`)
	itemTimes = regexp.MustCompile(`20[2-9]\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`) // of this run
)

func (s *itemsSession) run(t *testing.T, input string) string {
	t.Helper()
	line, stdin, _ := strings.Cut(input, "\n")
	r := program(t.Context(), strings.NewReader(stdin), words(strings.ReplaceAll(line, "$token", s.token))...)
	if m := tokens.FindStringSubmatch(r.stdout); m != nil {
		s.token = m[1]
		r.stdout = strings.ReplaceAll(r.stdout, s.token, "TOKEN")
	}
	r.stdout = itemTimes.ReplaceAllString(r.stdout, "TIME")
	return report(r)
}

// onEngine runs fn with the engine of the store data.
func onEngine(t *testing.T, fn func(kv.Engine) string) (text string) {
	t.Helper()
	err := withEngine(t.Context(), "data", storeurl.OpenEngine, greenroom.Options{}, func(e kv.Engine) error {
		text = fn(e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func putSchool(t *testing.T, e kv.Engine, d *datadriven.TestData) string {
	t.Helper()
	name, version := "", 1
	d.MaybeScanArgs(t, "name", &name)
	d.MaybeScanArgs(t, "version", &version)
	people := itemstore.TypeOf[student](nil)
	if version > 1 {
		people = itemstore.TypeOf[renamed](nil)
	}
	schema, err := itemstore.NewSchema(version, itemstore.TypeOf[course](nil), people, itemstore.TypeOf[enrolled](nil))
	if err != nil {
		t.Fatal(err)
	}
	hourAgo := time.Now().Add(-time.Hour)
	s, err := itemstore.Open(t.Context(), e, name, schema, &itemstore.Options{Now: func() time.Time { return hourAgo }})
	if err == nil && version == 1 {
		err = s.PutAll(t.Context(), []any{
			&course{ID: "MATH321", Year: 2023, Name: "Analysis", Reading: []byte{0, 1}},
			&course{ID: "PHYS341", Year: -5},
			&student{ID: 123, Class: 2025, Name: "Ada"},
			&student{ID: 124, Name: "Ben \x1b[2J" + "\u202e"},
			&enrolled{Course: "MATH321", Year: 2023, Student: 123, Marks: []mark{{7, []byte{9}}}},
			&enrolled{Course: "MATH321", Year: 2023, Student: 124, Until: hourAgo.Add(time.Minute)},
		}, nil)
	}
	if err != nil {
		return err.Error() + "\n"
	}
	return ""
}
