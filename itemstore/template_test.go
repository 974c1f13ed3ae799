package itemstore_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/greenroomdb/greenroom/itemstore"
)

// fields are the fields that the templates below name; a struct type with a path is made of it.
var fields = []reflect.StructField{
	{Name: "CourseID", Type: reflect.TypeFor[string]()},
	{Name: "AcademicYear", Type: reflect.TypeFor[uint]()},
	{Name: "AcademicQuarter", Type: reflect.TypeFor[uint8]()},
	{Name: "GraduatingYear", Type: reflect.TypeFor[uint]()},
	{Name: "StudentID", Type: reflect.TypeFor[uint64]()},
	{Name: "ContactInfo", Type: reflect.TypeFor[struct {
		Email, PhoneNumber string
		City               string `json:"city"`
		private            string
	}]()},
	{Name: "List", Type: reflect.TypeFor[[]string]()},
	{Name: "Price", Type: reflect.TypeFor[float64]()},
	{Name: "When", Type: reflect.TypeFor[time.Time]()},
	{Name: "For", Type: reflect.TypeFor[time.Duration]()},
	{Name: "Sure", Type: reflect.TypeFor[bool]()},
	{Name: "Raw", Type: reflect.TypeFor[[]byte]()},
	{Name: "UUID", Type: reflect.TypeFor[[16]byte]()},
	{Name: "Plan", Type: reflect.TypeFor[string](), Tag: `item:"default=free"`},
	{Name: "Made", Type: reflect.TypeFor[time.Time](), Tag: `item:"createdtime"`},
}

// typed returns an item type with these key paths.
func typed(paths string, more ...reflect.StructField) itemstore.Type {
	all := append([]reflect.StructField{{Name: "_", PkgPath: "x", Type: reflect.TypeFor[struct{}](), Tag: reflect.StructTag(fmt.Sprintf("name:%q path:%q", "T", paths))}}, fields...)
	return itemstore.TypeOfReflect(reflect.StructOf(append(all, more...)))
}

// TestTemplates has each row of the table in the document that the model comes from, and more.
func TestTemplates(t *testing.T) {
	for _, c := range []struct {
		paths string
		rule  string // "" if it is valid
		pos   int
	}{
		// The document's own rows.
		{"/course-:CourseID/year-:AcademicYear/quarter-:AcademicQuarter", "", 0},
		{"/classof-:GraduatingYear/student-:StudentID", "", 0},
		{"/student-:StudentID", "", 0},
		// The document's table calls this one valid, against its own rule that the first segment has an ID, for
		// which it refuses the row after the next. It surely means the one behind it.
		{"/courses/course-:CourseID/syllabus", "R3", 1},
		{"/course-:CourseID/syllabus", "", 0},
		{"/courses", "R3", 1},
		{"/courses/course-:CourseID", "R3", 1},
		{"/course-:CourseID/years/year-:AcademicYear", "R4", 18},
		{"/course-:CourseID/lecture-notes-:StudentID", "R2", 25},
		{"/student-StudentID", "R5", 9},
		// Nested fields.
		{"/email-:ContactInfo.Email", "", 0},
		{"/city-:ContactInfo.City", "R5", 7},
		{"/email-:ContactInfo.private", "R5", 8},
		{"/email-:ContactInfo.Nothing", "R5", 8},
		{"/email-:ContactInfo", "R5", 8},
		{"/email-:StudentID.Email", "R5", 8},
		// Form.
		{"", "R6", 0},
		{"/", "R1", 1},
		{"a-:StudentID", "R1", 0},
		{"/a-:StudentID/", "R1", 14},
		{"/a-:StudentID//b-:CourseID", "R1", 14},
		{"/a-:", "R5", 4},
		{"/a-:StudentID-:CourseID", "R5", 4},
		{"/1a-:StudentID", "R2", 1},
		{"/a b-:StudentID", "R1", 2},
		{"/-:StudentID", "R2", 1},
		{"/a-:NoSuchField", "R5", 4},
		{"/a-:List", "R5", 4},
		{"/a-:Price", "R5", 4},
		{"/a-:When", "R5", 4},
		{"/a-:For", "R5", 4},
		{"/a-:Sure", "R5", 4},
		{"/a-:Made", "R5", 4},
		{"/a-:Raw/b-:UUID", "", 0},
		{"/a-:StudentID sometimes", "R1", 13},
		// Indexes.
		{"/a-:StudentID, /a-:StudentID/@by-:CourseID", "", 0},
		{"/a-:StudentID/@by-:CourseID", "R1", 0},
		{"/a-:StudentID/@-:CourseID", "R2", 15},
		{"/@a-:StudentID", "R2", 1},
		{"/a-:StudentID, /a-:StudentID/b-:CourseID/@by-:Plan", "R2", 26},
		{"/a-:StudentID ref", "R1", 0},
		// Several paths.
		{"/a-:StudentID, /b-:CourseID", "", 0},
		{"/a-:StudentID, /a-:CourseID", "R7", 0},
		{"/a-:StudentID/b-:CourseID, /a-:StudentID/b", "", 0},
		{"/a-:Plan", "R8", 4},
		{"/a-:StudentID, /b-:Plan", "", 0},
		{"/a-:StudentID, /a-:CourseID/b-:Plan", "R9", 1},
		{"/a-:StudentID, /a-:StudentID/b-:Plan versioned", "R9", 0},
	} {
		_, err := itemstore.NewSchema(1, typed(c.paths))
		var te *itemstore.TemplateError
		switch {
		case c.rule == "" && err != nil:
			t.Errorf("%q: %v", c.paths, err)
		case c.rule != "" && (!errors.As(err, &te) || te.Rule != c.rule || te.Pos != c.pos || te.Type != "T" || !errors.Is(err, itemstore.ErrSchema)):
			t.Errorf("%q: got %v, want rule %s at byte %d", c.paths, err, c.rule, c.pos)
		}
	}
}

// TestKindsOfTypes: at one place of a group's paths, the IDs of all types are of one kind.
func TestKindsOfTypes(t *testing.T) {
	type A struct {
		_  struct{} `path:"/a-:ID/b-:N"`
		ID string
		N  int
	}
	type B struct {
		_  struct{} `path:"/a-:ID/b-:N/c-:M"`
		ID string
		N  uint8
		M  [16]byte
	}
	type C struct {
		_  struct{} `path:"/a-:ID/b-:N/d"`
		ID string
		N  string
	}
	if _, err := itemstore.NewSchema(1, itemstore.TypeOf[A](nil), itemstore.TypeOf[B](nil)); err != nil {
		t.Error(err)
	}
	var te *itemstore.TemplateError
	if _, err := itemstore.NewSchema(1, itemstore.TypeOf[A](nil), itemstore.TypeOf[C](nil)); !errors.As(err, &te) || te.Rule != "R9" {
		t.Errorf("a text where the other type has a number: %v", err)
	}
}

// TestTags has mistakes in the tags of fields and types.
func TestTags(t *testing.T) {
	type base struct {
		tag  string
		typ  reflect.Type
		want bool
	}
	text, number := reflect.TypeFor[string](), reflect.TypeFor[int64]()
	for _, c := range []base{
		{`item:"required"`, text, true},
		{`item:"requred"`, text, false},
		{`item:"default=5"`, number, true},
		{`item:"default=five"`, number, false},
		{`item:"default=0"`, number, false},
		{`item:"deprecated,default=a, b"`, text, true},
		{`item:"uuid"`, text, false},
		{`item:"uuid"`, reflect.TypeFor[[16]byte](), false}, // not in the primary path
		{`item:"createdtime"`, text, false},
		{`item:"createdtime"`, reflect.TypeFor[time.Time](), true},
		{`item:"modifiedversion"`, reflect.TypeFor[itemstore.Version](), true},
		{`item:"modifiedversion"`, number, false},
		{`valid:"this > 5"`, number, true},
		{`valid:"this >"`, number, false},
		{`valid:"that > 5"`, number, false},
	} {
		_, err := itemstore.NewSchema(1, typed("/a-:StudentID", reflect.StructField{Name: "F", Type: c.typ, Tag: reflect.StructTag(c.tag)}))
		if (err == nil) != c.want || err != nil && !errors.Is(err, itemstore.ErrSchema) {
			t.Errorf("%s of a %s: %v", c.tag, c.typ, err)
		}
	}
}
