package host

import (
	"reflect"
	"slices"
	"testing"

	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/queue"
	"github.com/greenroomdb/greenroom/workflow"
)

// filled returns a T whose fields all differ from their zero values.
func filled[T any](t *testing.T) *T {
	t.Helper()
	var o T
	v := reflect.ValueOf(&o).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); !fill(f) {
			t.Fatalf("%T.%s is a %s", o, v.Type().Field(i).Name, f.Type())
		}
	}
	return &o
}

func fill(f reflect.Value) bool {
	switch f.Kind() {
	case reflect.Int, reflect.Int64:
		f.SetInt(7)
	case reflect.Bool:
		f.SetBool(true)
	case reflect.String:
		f.SetString("x")
	case reflect.Slice:
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
	case reflect.Map:
		f.Set(reflect.MakeMap(f.Type()))
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
	case reflect.Func:
		f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { panic("not to be called") }))
	case reflect.Struct:
		return fill(f.Field(0))
	case reflect.Interface:
		for _, v := range []any{workflow.CBOR(), flowTracer{}} {
			if reflect.TypeOf(v).Implements(f.Type()) {
				f.Set(reflect.ValueOf(v))
				return true
			}
		}
		return false
	default:
		return false
	}
	return true
}

// TestPartsOptions: what a program may say about a part of its actors gets to the part,
// and but for what the host says itself there is a field for everything that the part
// takes.
func TestPartsOptions(t *testing.T) {
	l := &life{host: &Host{}, log: quiet, clock: alarm.New(nil), queue: &queue.Queue{}}
	q, d, w, s := filled[QueueOptions](t), filled[DBOptions](t), filled[WorkflowOptions](t), filled[TracesOptions](t)
	for _, part := range []struct {
		said, got any
		own       []string // what the host says
	}{
		{q, q.options(l), []string{"Clock", "Logger", "Metrics"}},
		{d, d.options(l), []string{"MaxConns", "MayWrite", "Logger", "Metrics"}},
		{w, w.options(l, func() {}), []string{"Queue", "Clock", "OnDue", "Logger"}},
		{s, s.options(l), []string{"Adopt", "Now", "Logger", "Metrics"}},
	} {
		said, got := reflect.ValueOf(part.said).Elem(), reflect.ValueOf(part.got).Elem()
		for i := range got.NumField() {
			name := got.Type().Field(i).Name
			if slices.Contains(part.own, name) {
				continue
			}
			want := said.FieldByName(name)
			if !want.IsValid() {
				t.Errorf("%s has no %s", said.Type(), name)
			} else if !same(got.Field(i), want) {
				t.Errorf("%s.%s is %v, want %v", got.Type(), name, got.Field(i), want)
			}
		}
		if n, most := said.NumField(), got.NumField()-len(part.own); n != most {
			t.Errorf("%s has %d fields, want %d", said.Type(), n, most)
		}
	}
	if got := d.options(l).Pragmas; !slices.Equal(got, []string{"", "synchronous=NORMAL"}) || len(d.Pragmas) != 1 {
		t.Errorf("pragmas are %q", got)
	}
}

// same says whether two values are the same; of functions, whether both are there. What the
// host adds to a list it adds at the end.
func same(got, want reflect.Value) bool {
	switch got.Kind() {
	case reflect.Func:
		return got.IsNil() == want.IsNil()
	case reflect.Slice:
		return got.Len() >= want.Len()
	}
	return reflect.DeepEqual(got.Interface(), want.Interface())
}
