package itemstore_test

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroomdb/greenroom/itemstore"
)

// The types of the model: aliases that are sparse, refs, indexes, a sequence, UUIDs, a singleton with a large text
// that ends, negative numbers, and groups that are versioned.

type Person struct {
	_     struct{} `path:"/person-:ID, /email-:Email nosync, /team-:Team/person-:ID ref, /team-:Team/@byName-:Name"`
	ID    uint64
	Email string
	Team  int
	Name  string
	Meta  itemstore.Meta
}

type Task struct {
	_     struct{} `path:"/team-:Team/task-:N, /person-:Owner/task-:Key"`
	Team  int
	N     int64 `item:"sequence"`
	Owner uint64
	Key   [16]byte
}

type Note struct {
	_      struct{} `path:"/person-:Person/note" ttl:"at :Until"`
	Person uint64
	Text   []byte
	Until  time.Time
}

type Slot struct {
	_    struct{} `path:"/day-:Day/slot-:At.Hour versioned, /person-:Person/@slots-:Day, /room-:Room/day-:Day/slot-:At.Hour versioned"`
	Day  int
	At   struct{ Hour int8 }
	Room string
	// Person has the slot, if it isn't zero.
	Person  uint64
	Version itemstore.Version `item:"modifiedversion"`
}

func modelSchema() (*itemstore.Schema, error) {
	return itemstore.NewSchema(1, itemstore.TypeOf[Person](nil), itemstore.TypeOf[Task](nil), itemstore.TypeOf[Note](nil), itemstore.TypeOf[Slot](nil))
}

// numbers are the namespaces whose IDs are numbers.
var numbers = map[string]bool{"person": true, "team": true, "task": true, "day": true, "slot": true, "@slots": true}

// pathsOf returns the paths of an item as its tags have them, the primary one first.
func pathsOf(item any) (list []itemstore.Path) {
	add := func(ok bool, els ...any) {
		if ok {
			list = append(list, itemstore.At(els...))
		}
	}
	switch v := item.(type) {
	case *Person:
		add(true, "person", v.ID)
		add(v.Email != "", "email", v.Email)
		add(v.Team != 0, "team", v.Team, "person", v.ID)
		add(v.Team != 0 && v.Name != "", "team", v.Team, "@byName", v.Name)
	case *Task:
		add(true, "team", v.Team, "task", v.N)
		add(v.Owner != 0 && v.Key != [16]byte{}, "person", v.Owner, "task", v.Key)
	case *Note:
		add(true, "person", v.Person, "note")
	case *Slot:
		add(true, "day", v.Day, "slot", v.At.Hour)
		add(v.Person != 0, "person", v.Person, "@slots", v.Day)
		add(v.Room != "", "room", v.Room, "day", v.Day, "slot", v.At.Hour)
	}
	return list
}

func isIndex(p itemstore.Path) bool { return strings.Contains(string(p), "/@") }

// model is an item store as maps.
type model struct {
	items    map[itemstore.Path]any // by the primary path
	now      time.Time
	sequence map[int]int64
}

func newModel(now time.Time) *model {
	return &model{items: map[itemstore.Path]any{}, now: now, sequence: map[int]int64{}}
}

func (m *model) clone() *model {
	c := newModel(m.now)
	for p, v := range m.items {
		c.items[p] = v
	}
	for t, n := range m.sequence {
		c.sequence[t] = n
	}
	return c
}

func (m *model) ended(item any) bool {
	n, ok := item.(*Note)
	return ok && !n.Until.IsZero() && n.Until.Unix() <= m.now.Unix()
}

// owner returns the primary path of the item that has p, or "".
func (m *model) owner(p itemstore.Path) itemstore.Path {
	for primary, item := range m.items {
		if !m.ended(item) && !isIndex(p) && slices.Contains(pathsOf(item), p) {
			return primary
		}
	}
	return ""
}

// put puts items at once, and returns what kind of error Put has.
func (m *model) put(items []any, mustNotExist bool) error {
	next := m.clone()
	for _, item := range items {
		if t, ok := item.(*Task); ok && t.N == 0 {
			next.sequence[t.Team]++
			t.N = next.sequence[t.Team]
			for next.items[pathsOf(t)[0]] != nil {
				next.sequence[t.Team]++
				t.N = next.sequence[t.Team]
			}
		}
		if n, ok := item.(*Note); ok && m.ended(n) {
			return itemstore.ErrInvalid
		}
	}
	for _, item := range items {
		primary := pathsOf(item)[0]
		if old := next.items[primary]; mustNotExist && m.items[primary] != nil && !m.ended(old) {
			return itemstore.ErrExists
		}
		next.items[primary] = item
	}
	for _, item := range items {
		if next.items[pathsOf(item)[0]] != item {
			continue // a later one has its place
		}
		for _, p := range pathsOf(item) {
			for primary, other := range next.items {
				if primary == pathsOf(item)[0] || isIndex(p) || next.ended(other) || !slices.Contains(pathsOf(other), p) {
					continue
				}
				if mustNotExist {
					return itemstore.ErrExists
				}
				return itemstore.ErrPathTaken
			}
		}
	}
	*m = *next
	return nil
}

func (m *model) delete(p itemstore.Path) {
	for primary, item := range m.items {
		if slices.Contains(pathsOf(item), p) && (!m.ended(item) || m.owner(p) == "") {
			delete(m.items, primary)
			return
		}
	}
}

// entry is an item at one of its paths.
type entry struct {
	path    itemstore.Path
	primary itemstore.Path
	item    any
}

// list returns what a list has, in its order.
func (m *model) list(prefix itemstore.Path, o *itemstore.ListOptions) (list []entry) {
	for primary, item := range m.items {
		if m.ended(item) || len(o.Types) > 0 && !slices.Contains(o.Types, reflect.TypeOf(item).Elem().Name()) {
			continue
		}
		if p, ok := item.(*Person); ok && o.Filters != nil && p.Team < 2 { // see filterOfModel
			continue
		}
		for i, p := range pathsOf(item) {
			switch {
			case prefix == "" && i > 0, prefix != "" && !below(prefix, p):
			case o.AtLeast != "" && comparePaths(p, o.AtLeast) < 0, o.GreaterThan != "" && comparePaths(p, o.GreaterThan) <= 0:
			case o.AtMost != "" && comparePaths(p, o.AtMost) > 0, o.LessThan != "" && comparePaths(p, o.LessThan) >= 0:
			default:
				list = append(list, entry{p, primary, item})
			}
		}
	}
	slices.SortFunc(list, func(a, b entry) int {
		c := cmp.Or(comparePaths(a.path, b.path), comparePaths(a.primary, b.primary))
		if o.Reverse {
			c = -c
		}
		return c
	})
	return list
}

// filterOfModel is the filter that list knows.
var filterOfModel = map[string]string{"Person": "this.Team >= 2"}

// below reports whether p begins with the segments of prefix, the last of which may lack its ID.
func below(prefix, p itemstore.Path) bool {
	a, b := segments(prefix), segments(p)
	if len(a) > len(b) || isIndex(prefix) != isIndex(p) {
		return false
	}
	for i, s := range a {
		if s != b[i] && (i < len(a)-1 || s.has || s.ns != b[i].ns) {
			return false
		}
	}
	return true
}

type seg struct {
	ns, id string
	has    bool
}

var hide, show = strings.NewReplacer("%%", "\x01", "%/", "\x02"), strings.NewReplacer("\x01", "%", "\x02", "/")

// segments takes a path to pieces, another way than the package does.
func segments(p itemstore.Path) (list []seg) {
	text := hide.Replace(string(p))
	for _, s := range strings.Split(text, "/")[1:] {
		ns, id, has := strings.Cut(s, "-")
		list = append(list, seg{ns, show.Replace(id), has})
	}
	return list
}

// comparePaths compares two paths of the model by their segments.
func comparePaths(a, b itemstore.Path) int {
	x, y := segments(a), segments(b)
	for i := range min(len(x), len(y)) {
		if c := strings.Compare(x[i].ns, y[i].ns); c != 0 {
			return c
		}
		if x[i].has != y[i].has {
			if x[i].has {
				return 1
			}
			return -1
		}
		if c := compareIDs(x, i, x[i].id, y[i].id); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}

func compareIDs(path []seg, i int, a, b string) int {
	if !numbers[path[i].ns] || path[0].ns == "person" && path[i].ns == "task" {
		if path[i].ns == "task" { // a UUID
			x, _ := base64.RawURLEncoding.DecodeString(a)
			y, _ := base64.RawURLEncoding.DecodeString(b)
			return bytes.Compare(x, y)
		}
		return strings.Compare(a, b)
	}
	x, _ := strconv.ParseInt(a, 10, 64)
	y, _ := strconv.ParseInt(b, 10, 64)
	return cmp.Compare(x, y)
}

// same says how an item that was read differs from that of the model, "" if it doesn't.
func same(got, want any) string {
	g, w := plain(got), plain(want)
	if reflect.DeepEqual(g, w) {
		return ""
	}
	return clipped(fmt.Sprintf("got %+v, want %+v", g, w))
}

// describe returns an item as it is printed.
func describe(item any) string {
	if n, ok := item.(*Note); ok {
		return fmt.Sprintf("note of %d with %d bytes until %v", n.Person, len(n.Text), n.Until.UTC())
	}
	return fmt.Sprintf("%T %+v", item, plain(item))
}

func clipped(s string) string { return s[:min(len(s), 250)] }

// plain returns a copy of an item without metadata.
func plain(item any) any {
	switch v := item.(type) {
	case *Person:
		c := *v
		c.Meta = itemstore.Meta{}
		return c
	case *Slot:
		c := *v
		c.Version = itemstore.Version{}
		return c
	case *Note:
		c := *v
		if c.Until = c.Until.UTC(); len(c.Text) == 0 {
			c.Text = nil
		}
		return c
	case *Task:
		return *v
	}
	return item
}

// kind returns the sentinel that an error is of.
func kind(err error) error {
	for _, k := range []error{itemstore.ErrExists, itemstore.ErrPathTaken, itemstore.ErrInvalid, itemstore.ErrNotFound, itemstore.ErrToken} {
		if errors.Is(err, k) {
			return k
		}
	}
	return err
}
