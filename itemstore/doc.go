// Package itemstore keeps items at key paths: the data model of StatelyDB
// (https://docs.stately.cloud), on the transactions of package txn.
//
// An item is a Go struct whose tags say at which paths it lies:
//
//	type Enrolled struct {
//		_       struct{} `path:"/course-:Course/year-:Year/student-:Student, /student-:Student/year-:Year/course-:Course"`
//		Course  string
//		Year    int
//		Student uint64
//		Grade   string
//	}
//
// Each item is found by any of its paths, and a list of all that begins with a path is one read:
// /student-1234 has the student, and all courses of that student; /course-MATH321/year-2023 the course and all
// students in it. A list has items of all types that lie there.
//
//	schema, err := itemstore.NewSchema(1, itemstore.TypeOf[Student](nil), itemstore.TypeOf[Enrolled](nil))
//	school, err := itemstore.Open(ctx, engine, "school", schema, nil)
//	err = school.Put(ctx, &Enrolled{Course: "MATH321", Year: 2023, Student: 1234}, nil)
//	e, err := itemstore.Get[Enrolled](ctx, school, "/student-1234/year-2023/course-MATH321")
//	for item, err := range school.List(ctx, "/student-1234", nil) { … }
//
// The first path is the primary one, and says which item it is: an item put there replaces the one
// that was there. The others are aliases: they move as the item's fields change,
// and are unique, so that /email-:Email lets no two items have one address. Put, Delete and
// what else changes an item changes it at all of its paths, in one commit.
//
// A client that keeps a copy of a list asks Sync what has changed in it. Several versions of a schema
// are in use at the same time, see Open. Transactions are Store.Update's.
//
// The package isn't an object mapper: it stores no references, and joins nothing. What belongs together
// lies below one path. docs/items.md is its manual.
//
// Files, from the top down:
//
//	doc.go store.go lists.go upkeep.go check.go tx.go sync.go query.go put.go stage.go view.go
//	registry.go item.go options.go keys.go content.go anyvalue.go expression.go schema.go catalog.go field.go
//	template.go record.go errors.go path.go
package itemstore
