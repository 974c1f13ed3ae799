// Command school keeps courses, students and enrolments at key paths.
//
//	go run ./examples/school STORE
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv/pebblekv"
)

// A Course is held in a year and a quarter.
type Course struct {
	_       struct{} `path:"/course-:ID/year-:Year/quarter-:Quarter"`
	ID      string
	Year    uint
	Quarter uint
	Name    string
}

// A Student is found by number, by year, and by address, which no other student has.
type Student struct {
	_              struct{} `path:"/student-:ID, /classof-:GraduatingYear/student-:ID, /email-:Email"`
	ID             uint64
	GraduatingYear uint
	Email          string
	Name           string
}

// An Enrolled says that a student takes a course. It lies in the course and in the student.
type Enrolled struct {
	_       struct{} `path:"/course-:Course/year-:Year/quarter-:Quarter/student-:Student, /student-:Student/year-:Year/quarter-:Quarter/course-:Course"`
	Course  string
	Year    uint
	Quarter uint
	Student uint64
}

func main() {
	ctx := context.Background()
	engine := must(pebblekv.Open(os.Args[1], nil)) // a folder, made if it isn't there
	defer engine.Close()
	schema := must(itemstore.NewSchema(1, itemstore.TypeOf[Course](nil), itemstore.TypeOf[Student](nil), itemstore.TypeOf[Enrolled](nil)))
	school := must(itemstore.Open(ctx, engine, "school", schema, nil))

	check(school.PutAll(ctx, []any{ // one commit
		&Course{ID: "MATH321", Year: 2023, Quarter: 1, Name: "Analysis"},
		&Course{ID: "PHYS341", Year: 2023, Quarter: 3, Name: "Optics"},
		&Student{ID: 123, GraduatingYear: 223, Email: "ada@example.com", Name: "Ada"}, // in 223?
		&Student{ID: 124, GraduatingYear: 2023, Email: "ben@example.com", Name: "Ben"},
		&Enrolled{Course: "MATH321", Year: 2023, Quarter: 1, Student: 123},
		&Enrolled{Course: "MATH321", Year: 2023, Quarter: 1, Student: 124},
		&Enrolled{Course: "PHYS341", Year: 223, Quarter: 3, Student: 123}, // in 223?
	}, nil))
	show(ctx, school, "which courses does student 123 take?", "/student-123/year")
	show(ctx, school, "which students take MATH321, and what else is there of it?", "/course-MATH321/year-2023")

	// A client copies a list, and keeps the token.
	page := must(school.Page(ctx, "/student-123", nil))

	// A new graduating year moves the alias.
	must(itemstore.Update(ctx, school, itemstore.At("student", 123), func(s *Student) error { s.GraduatingYear = 2023; return nil }))
	show(ctx, school, "the class of 223", "/classof-223")
	show(ctx, school, "the class of 2023", "/classof-2023")

	// A new primary path is a new item: it is put, and the wrong one deleted, in one commit.
	check(school.Update(ctx, func(tx *itemstore.Tx) error {
		const wrong = "/student-123/year-223/quarter-3/course-PHYS341"
		e, err := itemstore.Get[Enrolled](ctx, tx, wrong)
		if err != nil {
			return err
		}
		e.Year = 2023
		return errors.Join(tx.Put(ctx, e, nil), tx.Delete(ctx, wrong))
	}))
	show(ctx, school, "which courses does student 123 take now?", "/student-123/year")

	// An address has one student.
	err := school.Put(ctx, &Student{ID: 125, Email: "ada@example.com", Name: "Adam"}, nil)
	if taken := (*itemstore.PathTakenError)(nil); errors.As(err, &taken) {
		fmt.Println(taken.Path, "belongs to", taken.Owner)
	}

	// The client asks what has changed.
	changes := must(school.Sync(ctx, page.Token))
	fmt.Println("since the client's copy of /student-123:")
	for _, c := range changes.Changes {
		fmt.Println(" ", c.Kind, c.Path)
	}
}

// show prints a list.
func show(ctx context.Context, school *itemstore.Store, title string, prefix itemstore.Path) {
	fmt.Println(title)
	for item, err := range school.List(ctx, prefix, nil) {
		check(err)
		fmt.Println(" ", item.Path, item.Type)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "school:", err)
		os.Exit(1)
	}
}
