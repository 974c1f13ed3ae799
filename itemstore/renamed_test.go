package itemstore_test

import (
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/itemstore"
	"github.com/greenroomdb/greenroom/kv/memkv"
)

// TestFieldComesBack: a field that has the name of one that was removed can be the ID of a key path.
func TestFieldComesBack(t *testing.T) {
	type With struct {
		_    struct{} `path:"/a-:ID" name:"A"`
		ID   uint64
		Year string
	}
	type Without struct {
		_  struct{} `path:"/a-:ID" name:"A" removed:"Year"`
		ID uint64
	}
	type Again struct {
		_    struct{} `path:"/a-:ID, /year-:Year/a-:ID" name:"A"`
		ID   uint64
		Year int
	}
	e := memkv.New()
	defer e.Close()
	open(t, e, "s", 1, itemstore.TypeOf[With](nil))
	open(t, e, "s", 2, itemstore.TypeOf[Without](nil))
	s := open(t, e, "s", 3, itemstore.TypeOf[Again](nil))
	if err := s.Put(t.Context(), &Again{ID: 1, Year: 2023}, nil); err != nil {
		t.Fatal(err)
	}
	s = open(t, e, "s", 3, itemstore.TypeOf[Again](nil))
	if got := paths(t, t.Context(), s, "/year-2023", nil); len(got) != 1 {
		t.Errorf("got %q", got)
	}
	if _, err := itemstore.Open(t.Context(), e, "s", nil, nil); err != nil {
		t.Error(err)
	}
	if got, want := s.Schema().Types[0].Paths, []string{"/a-:ID", "/year-:Year/a-:ID"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
