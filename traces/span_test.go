package traces

import (
	"fmt"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"
)

// TestRoundTrip records a span with everything and reads it, before it is written, from
// the store, and after a restart.
func TestRoundTrip(t *testing.T) {
	w := newWatch(t0.Add(time.Minute))
	opts := quiet()
	opts.Now = w.now
	opts.Resource = &Resource{Attributes: []Attr{String("service.name", "lobby"), Int("pid", 7)}, SchemaURL: "https://example.com/1"}
	r := newRig(t, opts)
	ctx1, root := r.Start(ctx, "root", &StartOptions{Kind: KindServer, TraceState: "a=b", Flags: 1, DroppedAttributes: 2, DroppedLinks: 3,
		Attributes: []Attr{String("s", "text"), Bool("b", true)},
		Links:      []Link{{TraceID{1}, SpanID{2}, "c=d", []Attr{Int("n", 1)}, 4}},
		Scope:      Scope{"lib", "1.2", "https://example.com/2", []Attr{Bool("x", true)}}})
	w.pass(time.Second)
	ctx2, child := r.Start(ctx1, "child", nil)
	if FromContext(ctx2) != child || FromContext(ctx1) != root || FromContext(ctx) != nil {
		t.Error("a context has another span")
	}
	child.Event("first", Int("i", 1))
	w.pass(time.Second)
	root.SetAttributes(String("s", "other"), Float("f", 3))
	root.SetStatus(StatusError, "no")
	child.AddEvent(Event{Time: w.now().Add(time.Millisecond), Name: "second", DroppedAttributes: 5})
	child.End()
	w.pass(time.Second)
	root.End()

	wantRoot := SpanData{
		TraceID: root.TraceID(), SpanID: root.SpanID(), Name: "root", Kind: KindServer, TraceState: "a=b", Flags: 1,
		Start: t0.Add(time.Minute), End: w.now(), Status: Status{StatusError, "no"},
		Attributes: []Attr{String("s", "other"), Bool("b", true), Float("f", 3)}, DroppedAttributes: 2, DroppedLinks: 3,
		Links:    []Link{{TraceID{1}, SpanID{2}, "c=d", []Attr{Int("n", 1)}, 4}},
		Resource: opts.Resource, Scope: Scope{"lib", "1.2", "https://example.com/2", []Attr{Bool("x", true)}},
	}
	wantChild := SpanData{
		TraceID: root.TraceID(), SpanID: child.SpanID(), Parent: root.SpanID(), Name: "child",
		Start: t0.Add(61 * time.Second), End: t0.Add(62 * time.Second), Resource: opts.Resource,
		Events: []Event{
			{t0.Add(61 * time.Second), "first", []Attr{Int("i", 1)}, 0},
			{t0.Add(62*time.Second + time.Millisecond), "second", nil, 5},
		},
	}
	check := func(where string) {
		t.Helper()
		for _, q := range []Query{{}, {TraceID: root.TraceID()}, {Start: t0, End: t0.Add(time.Hour)}} {
			got := r.read(q).Spans
			if len(got) != 2 || !reflect.DeepEqual(got[0], wantRoot) || !reflect.DeepEqual(got[1], wantChild) {
				t.Errorf("%s: got\n%+v, want\n%+v\n%+v", where, got, wantRoot, wantChild)
			}
		}
	}
	check("in memory")
	r.flush()
	check("stored")
	r.verify("stored")
	r.reopen()
	check("after a restart")
	view, err := r.store.View(ctx, r.actor.ID())
	must(t, err)
	defer func() { must(t, view.Close()) }()
	res, err := Read(ctx, view.Snapshot, Query{}, 0)
	must(t, err)
	if len(res.Spans) != 2 || !reflect.DeepEqual(res.Spans[0], wantRoot) || res.Limit != defaultMaxRead || res.Clamped || res.Chunks != 1 {
		t.Errorf("in a view: %+v", res)
	}
}

// TestValues: every value comes back as what it was.
func TestValues(t *testing.T) {
	at := time.Unix(1_700_006_400, 123_456_789).UTC()
	values := []Value{
		{}, BoolValue(false), BoolValue(true), StringValue(""), StringValue("日本語"), BytesValue(nil), BytesValue([]byte{0, 255}),
		TimeValue(at), TimeValue(t0), TimeValue(time.Unix(-5, 0).UTC()), ArrayValue(), MapValue(),
		ArrayValue(IntValue(1), StringValue("a"), ArrayValue(FloatValue(1))), MapValue(Attr{"k", IntValue(1)}, Attr{"", MapValue()}),
		BigValue(new(big.Int).Lsh(big.NewInt(1), 63)), BigValue(new(big.Int).Lsh(big.NewInt(-1), 64)), BigValue(new(big.Int).Lsh(big.NewInt(3), 200)),
		BigValue(new(big.Int).Lsh(big.NewInt(-3), 200)),
	}
	for _, n := range []int64{0, 1, -1, 23, 24, -24, -25, 255, 256, 65535, 65536, math.MaxUint32, math.MaxUint32 + 1, -1 << 32, -1<<32 - 1,
		1 << 53, 1<<53 + 1, math.MaxInt64, math.MinInt64} {
		values = append(values, IntValue(n))
	}
	for _, f := range []float64{0, math.Copysign(0, -1), 3, 0.1, -1e10, 1e10, 12345678901, 1 << 53, 1<<53 + 2, 1e21, math.MaxFloat64, math.Inf(1), math.Inf(-1)} {
		values = append(values, FloatValue(f))
	}
	for _, v := range values {
		e := valueEncoder{}
		b, ok := e.append(nil, &v, 0)
		if got := decodeValue(b); !ok || !reflect.DeepEqual(got, v) {
			t.Errorf("%v: %x comes back as %#v, want %#v", v, b, got, v)
		}
	}
	e := valueEncoder{}
	nan := FloatValue(math.NaN())
	b, ok := e.append(nil, &nan, 0)
	if got := decodeValue(b); !ok || got.typ != typeFloat || !math.IsNaN(got.asFloat()) {
		t.Errorf("NaN: %x comes back as %#v", b, got)
	}
}

// TestForeignValues reads what JavaScript writes.
func TestForeignValues(t *testing.T) {
	for _, c := range []struct{ hex, want string }{
		{"b90000", "{}"},
		{"f7", "null"},
		{"fb4278bcfe56800000", "1700000000000"}, // an integer
		{"fb3fb999999999999a", "0.1"},           //
		{"d840420102", "0102"},                  // Uint8Array
		{"d8554800000040000000c0", "[2,-2]"},    // Float32Array
		{"d90102820102", "[1,2]"},               // Set
		{"d90103a1616101", `{"a":1}`},           // Map
		{"a10102", "[[1,2]]"},                   // Map with keys of another type
		{"c1fb41d9555555400000", "2023-11-15T"}, // Date
		{"c1fb7ff8000000000000", "null"},        // an invalid Date
		{"1b0000000000000005", "5"},             // bigint
		{"c249010000000000000000", "1" + "8446744073709551616"},
		{"d81b826b4572726f7261616162", "d81b826b4572726f7261616162"}, // nonsense stays what it is
		{"ff", "ff"},
		{"", ""},
	} {
		var b []byte
		if _, err := fmt.Sscanf(c.hex, "%x", &b); err != nil && c.hex != "" {
			t.Fatal(err)
		}
		if got := decodeValue(b).String(); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: got %s, want %s", c.hex, got, c.want)
		}
	}
}

// FuzzValue: any bytes are some value, and one that is written again is the same.
func FuzzValue(f *testing.F) {
	for _, b := range []string{"\xf6", "\xb9\x00\x01\x61a\x01", "\xd9\xd9\xf7\xfb\x42\x06\xfe\xe0\xe1\xa0\x00\x00", "\x82\x01\xd8\x40\x41\x01", "\xc1\x01"} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		v := decodeValue(b)
		e := valueEncoder{}
		again, ok := e.append(nil, &v, 0)
		if !ok {
			return // deeper than what is written
		}
		w := decodeValue(again)
		if v.String() != w.String() || v.typ != w.typ {
			t.Errorf("%x is %v, and %x is %v", b, v, again, w)
		}
	})
}

// TestLimits: what is over a limit is cut or dropped, counted, and never an error.
func TestLimits(t *testing.T) {
	opts := quiet()
	opts.Limits = Limits{Attributes: 2, Events: 1, Links: 1, EventAttributes: 1, LinkAttributes: 1, ValueLength: 3}
	r := newRig(t, opts)
	three := []Attr{String("a", "äöüß"), Int("b", 2), Int("c", 3)}
	link := Link{TraceID: TraceID{1}, SpanID: SpanID{1}, Attributes: three}
	s := r.Begin("s", &StartOptions{Attributes: three, Links: []Link{link, link}})
	s.SetAttributes(Int("d", 4), Int("b", 5), Int("", 1))
	s.Event("e", three...)
	s.Event("f")
	s.End()
	s.End()
	s.SetAttributes(three...)
	(*Span)(nil).Event("nothing")
	for range 2 {
		d := r.one(Query{})
		if attr(&d, "a") != "äöü" || attr(&d, "b") != "5" || len(d.Attributes) != 2 || d.DroppedAttributes != 3 {
			t.Errorf("attributes %v, %d dropped", d.Attributes, d.DroppedAttributes)
		}
		if len(d.Links) != 1 || d.DroppedLinks != 1 || d.Links[0].DroppedAttributes != 2 || len(d.Links[0].Attributes) != 1 {
			t.Errorf("links %+v, %d dropped", d.Links, d.DroppedLinks)
		}
		if len(d.Events) != 1 || d.DroppedEvents != 1 || d.Events[0].DroppedAttributes != 2 {
			t.Errorf("events %+v, %d dropped", d.Events, d.DroppedEvents)
		}
		r.flush()
	}
	st := r.Stats()
	if st.DroppedAttributes != 3+2+2 || st.DroppedLinks != 1 || st.DroppedEvents != 1 || st.Truncated != 3 || st.Ignored != 2 {
		t.Errorf("%+v", st)
	}
}

// TestHuge: a record that has no room in a chunk is made to have.
func TestHuge(t *testing.T) {
	r := newRig(t, quiet())
	var attrs []Attr
	for i := range 100 {
		attrs = append(attrs, String(fmt.Sprint("key ", i), strings.Repeat("x", 20_000)))
	}
	long := strings.Repeat("n", 200_000)
	var links []Link
	for range 128 {
		links = append(links, Link{TraceID: TraceID{1}, SpanID: SpanID{1}, TraceState: long, Attributes: attrs})
	}
	s := r.Begin(long, &StartOptions{Attributes: attrs, Links: links, TraceState: long,
		Scope: Scope{Name: long, Attributes: attrs}, Resource: &Resource{Attributes: attrs}})
	s.Event(long, attrs...)
	s.update(attrs, 1, &Status{StatusError, long})
	s.Restate(&SpanData{Name: "\xff", Attributes: attrs, Links: links})
	s.SetAttributes(String(long, "x"), String("\xff", "not UTF-8"))
	s.End()
	r.flush()
	d := r.one(Query{})
	if d.Name != "\uFFFD" || d.DroppedAttributes == 0 || len(d.Attributes) == 0 || len(d.Events) != 1 {
		t.Errorf("%s: %d attributes, %d dropped, %d links dropped", d.Name, len(d.Attributes), d.DroppedAttributes, d.DroppedLinks)
	}
	_, _, sizes := r.chunks()
	for _, n := range sizes {
		if n > 128<<10 {
			t.Errorf("a chunk of %d bytes", n)
		}
	}
	want(t, "records dropped", r.Stats().DroppedRecords, 0)
	r.verify("huge")
}

// TestRestate changes what no other record can.
func TestRestate(t *testing.T) {
	r := newRig(t, quiet())
	s := r.Begin("before", &StartOptions{Attributes: []Attr{Int("a", 1)}})
	s.Event("event")
	d := s.data()
	d.Name, d.Kind, d.DroppedEvents = "after", KindClient, 9
	d.Links = append(d.Links, Link{TraceID: TraceID{9}, SpanID: SpanID{9}})
	d.Attributes = append(d.Attributes, Int("b", 2))
	s.Restate(&d)
	s.End()
	got := r.one(Query{})
	if got.Name != "after" || got.Kind != KindClient || len(got.Links) != 1 || len(got.Attributes) != 2 ||
		got.DroppedEvents != 9 || events(&got) != "[event]" || got.Running() || !got.Start.Equal(d.Start) {
		t.Errorf("%+v", got)
	}
}

// TestRecord records spans that ended elsewhere, of which one is there already.
func TestRecord(t *testing.T) {
	w := newWatch(t0.Add(3 * time.Hour))
	opts := quiet()
	opts.Now = w.now
	r := newRig(t, opts)
	d := SpanData{
		TraceID: TraceID{1}, SpanID: SpanID{2}, Parent: SpanID{3}, Name: "elsewhere", Kind: KindProducer,
		Start: t0, End: t0.Add(150 * time.Minute), Status: Status{StatusOK, ""},
		Attributes: []Attr{Int("a", 1)}, DroppedAttributes: 1, DroppedLinks: 2, DroppedEvents: 3,
		Events: []Event{{t0.Add(time.Second), "early", nil, 0}, {t0.Add(100 * time.Minute), "late", []Attr{Int("b", 1)}, 0}},
	}
	r.Record(&d)
	r.flush()
	if got := r.one(Query{}); !reflect.DeepEqual(got, d) {
		t.Errorf("got\n%+v, want\n%+v", got, d)
	}
	r.Record(&SpanData{Name: "anonymous"})
	if got := r.read(Query{Name: "anonymous"}).Spans; len(got) != 1 || got[0].TraceID.IsZero() || got[0].Running() {
		t.Errorf("%+v", got)
	}
	r.verify("recorded")
}
