package greenroom

import (
	"log/slog"
	"reflect"
	"slices"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/greenroomdb/greenroom/alarm"
	"github.com/greenroomdb/greenroom/metrics"
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
		for _, v := range []any{workflow.CBOR(), noop.NewTracerProvider()} {
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

// A nowhere is a metrics.Sink.
type nowhere struct{ metrics.Sink }

// TestPartsOptions: what a program may say about a part of its actors gets to the part, and
// but for what the actor says itself there is a field for everything that the part takes.
func TestPartsOptions(t *testing.T) {
	a := &Actor{store: &Store{opts: Options{Metrics: nowhere{}}}, clock: alarm.New(nil), log: slog.New(slog.DiscardHandler)}
	q, d, w, s := filled[QueueOptions](t), filled[DBOptions](t), filled[WorkflowOptions](t), filled[TracesOptions](t)
	for _, part := range []struct {
		said, got  any
		own, unset []string // what the actor says, and what nothing says
	}{
		{q, q.options(a), []string{"Clock", "Logger", "Metrics"}, nil},
		{d, d.options(a), []string{"MayWrite", "Logger", "Metrics"}, []string{"MaxConns"}},
		{w, w.options(a), []string{"Clock", "Logger", "RunContext"}, []string{"Queue"}}, // of OpenWorkflow
		{s, s.options(a), []string{"Logger", "Metrics"}, []string{"Adopt", "Now"}},
	} {
		said, got := reflect.ValueOf(part.said).Elem(), reflect.ValueOf(part.got).Elem()
		for i := range got.NumField() {
			name := got.Type().Field(i).Name
			want := said.FieldByName(name)
			switch {
			case slices.Contains(part.own, name) || slices.Contains(part.unset, name):
				if got.Field(i).IsZero() == slices.Contains(part.own, name) {
					t.Errorf("%s.%s is %v", got.Type(), name, got.Field(i))
				}
			case !want.IsValid():
				t.Errorf("%s has no %s", said.Type(), name)
			case !same(got.Field(i), want):
				t.Errorf("%s.%s is %v, want %v", got.Type(), name, got.Field(i), want)
			}
		}
		if n, most := said.NumField(), got.NumField()-len(part.own)-len(part.unset); n != most {
			t.Errorf("%s has %d fields, want %d", said.Type(), n, most)
		}
	}
}

// same reports whether two values are the same; of functions, whether both are there.
func same(got, want reflect.Value) bool {
	if got.Kind() == reflect.Func {
		return got.IsNil() == want.IsNil()
	}
	return reflect.DeepEqual(got.Interface(), want.Interface())
}
